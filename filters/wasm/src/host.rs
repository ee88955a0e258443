//! Every call to the host, in one place: nothing here panics, whatever the host answers.
//!
//! The SDK's own wrappers panic on a status that they do not expect, and a panic is a trap that takes the worker's VM down; so a call that
//! runs for each request is declared here and answers with an `Option` or nothing.
#![allow(unsafe_code, reason = "the Proxy-Wasm ABI is a C ABI")]

use bloc_policy::cluster_name::service_of;
use bloc_policy::shared::{Cas, Shared};
use bloc_policy::units::Timestamp;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MapType, MetricType};
use std::ptr::{null, null_mut};
use std::time::Duration;

/// `Status::Ok` of the ABI.
const OK: u32 = 0;

mod ffi {
    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        pub fn proxy_get_header_map_value(
            map: u32,
            key: *const u8,
            key_size: usize,
            value: *mut *mut u8,
            value_size: *mut usize,
        ) -> u32;
        pub fn proxy_replace_header_map_value(
            map: u32,
            key: *const u8,
            key_size: usize,
            value: *const u8,
            value_size: usize,
        ) -> u32;
        pub fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32;
        pub fn proxy_get_property(
            path: *const u8,
            path_size: usize,
            value: *mut *mut u8,
            value_size: *mut usize,
        ) -> u32;
        pub fn proxy_get_shared_data(
            key: *const u8,
            key_size: usize,
            value: *mut *mut u8,
            value_size: *mut usize,
            cas: *mut u32,
        ) -> u32;
        pub fn proxy_set_shared_data(
            key: *const u8,
            key_size: usize,
            value: *const u8,
            value_size: usize,
            cas: u32,
        ) -> u32;
        pub fn proxy_send_local_response(
            status: u32,
            details: *const u8,
            details_size: usize,
            body: *const u8,
            body_size: usize,
            headers: *const u8,
            headers_size: usize,
            grpc_status: i32,
        ) -> u32;
        pub fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, id: *mut u32) -> u32;
        pub fn proxy_increment_metric(id: u32, offset: i64) -> u32;
        pub fn proxy_record_metric(id: u32, value: u64) -> u32;
        pub fn proxy_get_metric(id: u32, value: *mut u64) -> u32;
        pub fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
        pub fn proxy_register_shared_queue(name: *const u8, name_size: usize, id: *mut u32) -> u32;
        pub fn proxy_resolve_shared_queue(
            vm_id: *const u8,
            vm_id_size: usize,
            name: *const u8,
            name_size: usize,
            id: *mut u32,
        ) -> u32;
        pub fn proxy_enqueue_shared_queue(id: u32, value: *const u8, value_size: usize) -> u32;
        pub fn proxy_dequeue_shared_queue(id: u32, value: *mut *mut u8, value_size: *mut usize) -> u32;
        pub fn proxy_set_effective_context(context: u32) -> u32;
        pub fn proxy_continue_stream(stream: u32) -> u32;
    }

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        pub fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
        pub fn random_get(buffer: *mut u8, size: usize) -> u32;
    }
}

/// Which headers are meant.
#[derive(Clone, Copy)]
pub enum Headers {
    /// Of the request.
    Request = MapType::HttpRequestHeaders as isize,
    /// Of the response.
    Response = MapType::HttpResponseHeaders as isize,
    /// Of the answer to our own call.
    CallResponse = MapType::HttpCallResponseHeaders as isize,
}

/// Takes over a buffer that the host made with the guest's allocator.
///
/// # Safety
/// `data` and `size` are what a host call has just returned with [`OK`].
unsafe fn owned(data: *mut u8, size: usize) -> Vec<u8> {
    // SAFETY: the host allocated exactly `size` bytes through `proxy_on_memory_allocate`, that is through the global allocator.
    if data.is_null() { Vec::new() } else { unsafe { Vec::from_raw_parts(data, size, size) } }
}

/// A header's value; the first if there are several.
pub fn header(map: Headers, name: &str) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = ffi::proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// Sets a header, in place of all of that name.
pub fn set_header(map: Headers, name: &str, value: &[u8]) {
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::proxy_replace_header_map_value(map as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len());
    }
}

/// Removes all headers of that name.
pub fn remove_header(map: Headers, name: &str) {
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len());
    }
}

/// A property by its path, whose parts are separated by `\0`.
pub fn property(path: &str) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = ffi::proxy_get_property(path.as_ptr(), path.len(), &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// A property that is text; nothing if it is not UTF-8.
pub fn text_property(path: &str) -> Option<String> {
    property(path).and_then(|bytes| String::from_utf8(bytes).ok())
}

/// A value that all threads of this Envoy share, and the number that guards it.
pub fn shared_data(key: &str) -> (Option<Vec<u8>>, Cas) {
    let (mut data, mut size, mut cas) = (null_mut(), 0, 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = ffi::proxy_get_shared_data(key.as_ptr(), key.len(), &mut data, &mut size, &mut cas);
        if status == OK { (Some(owned(data, size)), Cas::new(cas)) } else { (None, Cas::ABSENT) }
    }
}

/// Sets a shared value if it is still guarded by `cas`; whether it was set.
pub fn set_shared_data(key: &str, value: &[u8], cas: Cas) -> bool {
    // SAFETY: the pointers are valid for the call.
    unsafe { ffi::proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas.get()) == OK }
}

/// Sets a shared value in any case.
pub fn overwrite_shared_data(key: &str, value: &[u8]) {
    const IN_ANY_CASE: Cas = Cas::new(0);
    set_shared_data(key, value, IN_ANY_CASE);
}

/// The data that all VMs of this Envoy share.
pub struct Data;

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        shared_data(key)
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        set_shared_data(key, value, cas)
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        overwrite_shared_data(key, value);
    }
}

/// Answers the request in place of the upstream: `status` over HTTP, `grpc_status` in a trailers-only response over gRPC.
/// `details` shows up as `%RESPONSE_CODE_DETAILS%`.
pub fn respond(status: u32, grpc_status: i32, details: &str, headers: &[(&str, &str)]) {
    let map = header_map(headers);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            null(),
            0,
            map.as_ptr(),
            map.len(),
            grpc_status,
        );
    }
}

/// The ABI's form of a header map: the count, the sizes, then the names and values, each closed by a zero byte.
fn header_map(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut map = Vec::with_capacity(128);
    map.extend((headers.len() as u32).to_le_bytes());
    for (name, value) in headers {
        map.extend((name.len() as u32).to_le_bytes());
        map.extend((value.len() as u32).to_le_bytes());
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        map.extend(text.as_bytes());
        map.push(0);
    }
    map
}

/// Defines a metric, or finds the one of that name.
pub fn define_metric(kind: MetricType, name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: the pointers are valid for the call.
    unsafe { (ffi::proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) == OK).then_some(id) }
}

/// Adds to a counter or a gauge; atomic over all threads.
pub fn increment_metric(id: u32, offset: i64) {
    // SAFETY: no pointers.
    unsafe {
        ffi::proxy_increment_metric(id, offset);
    }
}

/// Sets a gauge.
pub fn record_metric(id: u32, value: u64) {
    // SAFETY: no pointers.
    unsafe {
        ffi::proxy_record_metric(id, value);
    }
}

/// Reads a gauge; 0 if there is none.
pub fn metric(id: u32) -> u64 {
    let mut value = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe {
        ffi::proxy_get_metric(id, &mut value);
    }
    value
}

/// Asks for `on_tick` every `period` (zero: never) on the current root context.
pub fn set_tick_period(period: Duration) {
    // SAFETY: no pointers.
    unsafe {
        ffi::proxy_set_tick_period_milliseconds(period.as_millis() as u32);
    }
}

/// The monotonic clock, the same for all threads of this Envoy.
pub fn now() -> Timestamp {
    const MONOTONIC: u32 = 1;
    let mut nanos = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe {
        ffi::clock_time_get(MONOTONIC, 0, &mut nanos);
    }
    Timestamp::from_nanos(nanos)
}

/// Eight bytes of the host's entropy.
pub fn entropy() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the pointer is valid for the call.
    unsafe {
        ffi::random_get(bytes.as_mut_ptr(), bytes.len());
    }
    u64::from_le_bytes(bytes)
}

/// The body of the answer to our own call.
pub fn call_response_body(size: usize) -> Vec<u8> {
    hostcalls::get_buffer(proxy_wasm::types::BufferType::HttpCallResponseBody, 0, size)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// The plugin configuration of the current root context.
pub fn plugin_configuration() -> Vec<u8> {
    hostcalls::get_buffer(proxy_wasm::types::BufferType::PluginConfiguration, 0, usize::MAX)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Posts JSON to a cluster; the answer comes to `on_http_call_response` of the current root context. Whether the call was taken.
pub fn post_json(cluster: &str, path: &str, body: &[u8], timeout: Duration) -> Option<u32> {
    // The name of an Istio cluster is no authority: a sidecar in front of the control plane would answer 400.
    let authority = service_of(cluster);
    let headers =
        vec![(":method", "POST"), (":path", path), (":authority", authority), ("content-type", "application/json")];
    hostcalls::dispatch_http_call(cluster, headers, Some(body), Vec::new(), timeout).ok()
}

fn queue_name(vm: u64) -> String {
    format!("bloc/vm/{vm:016x}")
}

/// Registers the queue of the VM with this number; messages come to `on_queue_ready` of the current root context.
pub fn register_queue(vm: u64) {
    let (name, mut id) = (queue_name(vm), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::proxy_register_shared_queue(name.as_ptr(), name.len(), &mut id);
    }
}

/// Puts a message into the queue of another VM of the same id.
pub fn wake(vm: u64, message: &[u8]) {
    let (vm_id, name, mut id) = (property("plugin_vm_id").unwrap_or_default(), queue_name(vm), 0);
    // SAFETY: the pointers are valid for the calls.
    unsafe {
        if ffi::proxy_resolve_shared_queue(vm_id.as_ptr(), vm_id.len(), name.as_ptr(), name.len(), &mut id) == OK {
            ffi::proxy_enqueue_shared_queue(id, message.as_ptr(), message.len());
        }
    }
}

/// Takes a message out of a queue.
pub fn dequeue(queue: u32) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = ffi::proxy_dequeue_shared_queue(queue, &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// Does something on behalf of another context. It stays the effective one until the present callback ends, so this comes last.
pub fn in_context(context: u32, work: impl FnOnce()) {
    // SAFETY: no pointers.
    if unsafe { ffi::proxy_set_effective_context(context) } == OK {
        work();
    }
}

/// Lets a paused request go on.
pub fn resume_request(context: u32) {
    const HTTP_REQUEST: u32 = 0;
    in_context(context, || {
        // SAFETY: no pointers.
        unsafe {
            ffi::proxy_continue_stream(HTTP_REQUEST);
        }
    });
}
