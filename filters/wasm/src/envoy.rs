//! One worker thread of Envoy: everything but its streams.
//!
//! Nothing that a request runs panics, whatever Envoy returns.
#![allow(unsafe_code, reason = "the Proxy-Wasm ABI is a C ABI")]

use crate::abi::{self, OK, header, in_context, owned, property};
use crate::stream::EnvoyStream;
use bloc_engine::host::{Host, MetricKind, Post, PostAnswer};
use bloc_policy::proxy::shared::{Cas, Shared};
use bloc_policy::sync::REPLICA_HEADER;
use bloc_policy::units::Timestamp;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, MapType, MetricType};
use std::cell::RefCell;
use std::ptr::null_mut;
use std::time::Duration;

/// The root id of the current root context.
pub fn root_id() -> String {
    property("plugin_root_id").and_then(|id| String::from_utf8(id).ok()).unwrap_or_default()
}

/// The plugin configuration of the current root context, while it is being configured.
pub fn plugin_configuration() -> Vec<u8> {
    hostcalls::get_buffer(BufferType::PluginConfiguration, 0, usize::MAX).ok().flatten().unwrap_or_default()
}

/// The answer to our own call, in its callback.
pub fn post_answer(body_size: usize) -> PostAnswer {
    let body = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, body_size);
    PostAnswer {
        status: header(MapType::HttpCallResponseHeaders, ":status").unwrap_or_default(),
        retry_after: header(MapType::HttpCallResponseHeaders, "retry-after"),
        replica: header(MapType::HttpCallResponseHeaders, REPLICA_HEADER),
        body: body.ok().flatten().unwrap_or_default(),
    }
}

fn queue_name(vm: u64) -> String {
    format!("bloc/vm/{vm:016x}")
}

thread_local! {
    /// The queues that this thread has sent messages to, by their VMs.
    static QUEUES: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
}

/// The queue of the VM with this number.
fn resolve(vm: u64) -> Option<u32> {
    let (vm_id, name, mut id) = (property("plugin_vm_id").unwrap_or_default(), queue_name(vm), 0);
    // SAFETY: the pointers are valid for the call.
    let status =
        unsafe { abi::proxy_resolve_shared_queue(vm_id.as_ptr(), vm_id.len(), name.as_ptr(), name.len(), &mut id) };
    (status == OK).then_some(id)
}

/// Puts a message into a queue; false if there is no such queue.
fn enqueue(queue: u32, message: &[u8]) -> bool {
    // SAFETY: the pointers are valid for the call.
    unsafe { abi::proxy_enqueue_shared_queue(queue, message.as_ptr(), message.len()) == OK }
}

/// Takes a message out of a queue.
pub fn dequeue(queue: u32) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = abi::proxy_dequeue_shared_queue(queue, &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// The worker thread that this VM belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Envoy;

impl Shared for Envoy {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let (mut data, mut size, mut cas) = (null_mut(), 0, 0);
        // SAFETY: the pointers are valid for the call.
        unsafe {
            let status = abi::proxy_get_shared_data(key.as_ptr(), key.len(), &mut data, &mut size, &mut cas);
            if status == OK { (Some(owned(data, size)), Cas::new(cas)) } else { (None, Cas::ABSENT) }
        }
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        // SAFETY: the pointers are valid for the call.
        unsafe { abi::proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas.get()) == OK }
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        const IN_ANY_CASE: Cas = Cas::new(0);
        self.set(key, value, IN_ANY_CASE);
    }
}

impl Host for Envoy {
    type Stream = EnvoyStream;
    type Metric = u32;

    fn now(&self) -> Timestamp {
        const MONOTONIC: u32 = 1;
        let mut nanos = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe {
            abi::clock_time_get(MONOTONIC, 0, &mut nanos);
        }
        Timestamp::from_nanos(nanos)
    }

    fn entropy(&self) -> u64 {
        let mut bytes = [0; 8];
        // SAFETY: the pointer is valid for the call.
        unsafe {
            abi::random_get(bytes.as_mut_ptr(), bytes.len());
        }
        u64::from_le_bytes(bytes)
    }

    #[cfg(target_arch = "wasm32")]
    fn memory_pages(&self) -> u64 {
        core::arch::wasm32::memory_size::<0>() as u64
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn memory_pages(&self) -> u64 {
        0
    }

    fn node(&self) -> String {
        property("xds\0node\0id").and_then(|id| String::from_utf8(id).ok()).unwrap_or_default()
    }

    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<u32> {
        let kind = match kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
        };
        let mut id = 0;
        // SAFETY: the pointers are valid for the call.
        unsafe { (abi::proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) == OK).then_some(id) }
    }

    fn add_to_metric(&self, id: u32, offset: i64) {
        // SAFETY: no pointers.
        unsafe {
            abi::proxy_increment_metric(id, offset);
        }
    }

    fn set_metric(&self, id: u32, value: u64) {
        // SAFETY: no pointers.
        unsafe {
            abi::proxy_record_metric(id, value);
        }
    }

    fn metric(&self, id: u32) -> u64 {
        let mut value = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe {
            abi::proxy_get_metric(id, &mut value);
        }
        value
    }

    fn register_queue(&self, root: u32, vm: u64) {
        let (name, mut id) = (queue_name(vm), 0);
        in_context(root, || {
            // SAFETY: the pointers are valid for the call.
            unsafe { abi::proxy_register_shared_queue(name.as_ptr(), name.len(), &mut id) };
        });
    }

    fn wake(&self, vm: u64, message: &[u8]) {
        QUEUES.with_borrow_mut(|queues| {
            let known = queues.iter().find(|(of, _)| *of == vm).map(|(_, queue)| *queue);
            if known.is_some_and(|queue| enqueue(queue, message)) {
                return;
            }
            queues.retain(|(of, _)| *of != vm);
            queues.extend(resolve(vm).filter(|queue| enqueue(*queue, message)).map(|queue| (vm, queue)));
        });
    }

    fn post(&self, post: Post<'_>) -> Option<u32> {
        let Post { cluster, authority, path, headers, body, timeout } = post;
        let own =
            [(":method", "POST"), (":path", path), (":authority", authority), ("content-type", "application/json")];
        let headers = [&own, headers].concat();
        hostcalls::dispatch_http_call(cluster, headers, Some(body), Vec::new(), timeout).ok()
    }

    fn set_tick_period(&self, root: u32, period: Duration) {
        in_context(root, || {
            // SAFETY: no pointers.
            unsafe { abi::proxy_set_tick_period_milliseconds(period.as_millis() as u32) };
        });
    }
}
