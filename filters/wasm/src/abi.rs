//! The host calls, as the Proxy-Wasm ABI declares them.
//!
//! The SDK's own wrappers panic on an unexpected status, and a panic is a trap that ends the
//! worker's VM. So these calls are declared here and return the status. Only configurations and
//! calls to the control plane use the SDK.
#![allow(unsafe_code, reason = "the Proxy-Wasm ABI is a C ABI")]

use proxy_wasm::types::MapType;
use std::ptr::null_mut;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    pub fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> u32;
    pub fn proxy_get_header_map_size(map: u32, size: *mut u32) -> u32;
    pub fn proxy_add_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    pub fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    pub fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32;
    pub fn proxy_get_property(path: *const u8, path_size: usize, value: *mut *mut u8, value_size: *mut usize) -> u32;
    pub fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    pub fn proxy_set_shared_data(key: *const u8, key_size: usize, value: *const u8, value_size: usize, cas: u32)
    -> u32;
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

/// `Status::Ok` of the ABI.
pub const OK: u32 = 0;

/// Takes ownership of a buffer that Envoy made with the module's allocator.
///
/// # Safety
/// `data` and `size` are what a host call has just returned with [`OK`].
pub unsafe fn owned(data: *mut u8, size: usize) -> Vec<u8> {
    // SAFETY: the host allocated exactly `size` bytes through `proxy_on_memory_allocate`, that is
    // through the global allocator.
    if data.is_null() { Vec::new() } else { unsafe { Vec::from_raw_parts(data, size, size) } }
}

/// A property; the parts of its path are separated by `\0`.
pub fn property(path: &str) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = proxy_get_property(path.as_ptr(), path.len(), &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// The size in bytes of the names and values of all headers.
pub fn header_bytes(map: MapType) -> Option<u64> {
    let mut size = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { (proxy_get_header_map_size(map as u32, &mut size) == OK).then(|| size.into()) }
}

/// A header's value; the first if there are several.
pub fn header(map: MapType, name: &str) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        let status = proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), &mut data, &mut size);
        (status == OK).then(|| owned(data, size))
    }
}

/// Runs `work` for another context.
pub fn in_context(context: u32, work: impl FnOnce()) {
    /// The VM's own context; Envoy takes it for that of the current callback.
    const PRESENT: u32 = 0;
    // SAFETY: no pointers.
    if unsafe { proxy_set_effective_context(context) } == OK {
        work();
        // SAFETY: no pointers.
        unsafe { proxy_set_effective_context(PRESENT) };
    }
}
