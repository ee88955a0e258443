//! The host functions of Proxy-Wasm 0.2.1, as Envoy answers them.
//!
//! These functions read the arguments of a call and write its results. The state behind them is in
//! the modules beside this folder.
//!
//! A call that Envoy refuses is a fault, and so is one that Envoy accepts without effect (a local
//! reply from a root context). A guest may ask in vain for a header or for a message in a queue;
//! that is not a fault.

mod call;
mod headers;
mod memory;
mod shared;
mod stream;
mod system;

use crate::guest::Guest;
use crate::status::{Refusal, Status};
use call::run;
use wasmtime::{Caller, ExternType, Linker, Module, Val};

/// Functions that Envoy has and this host lacks: a module may import them, but not call them.
const NOT_CARRIED: &[&str] = &[
    "proxy_get_status",
    "proxy_grpc_call",
    "proxy_grpc_stream",
    "proxy_grpc_send",
    "proxy_grpc_cancel",
    "proxy_grpc_close",
    "proxy_call_foreign_function",
    "proxy_get_log_level",
    "proxy_get_configuration",
    "proxy_get_buffer_status",
    "proxy_continue_request",
    "proxy_continue_response",
    "proxy_clear_route_cache",
    "fd_write",
    "fd_read",
    "fd_seek",
    "fd_close",
    "fd_fdstat_get",
    "environ_get",
    "environ_sizes_get",
    "args_get",
    "args_sizes_get",
    "proc_exit",
    "path_open",
    "path_filestat_get",
    "fd_filestat_get",
    "fd_prestat_get",
    "fd_prestat_dir_name",
    "sched_yield",
    "poll_oneoff",
];

/// WASI's errno for a call that is not supported.
const ENOTSUP: i32 = 58;

/// Declares a host function of Proxy-Wasm.
macro_rules! host {
    ($linker:ident, $names:ident, $name:literal, |$call:ident $(, $arg:ident: $type:ty)*| $body:expr) => {{
        let index = $names.len();
        $names.push($name);
        $linker.func_wrap("env", $name, move |mut caller: Caller<'_, Guest> $(, $arg: $type)*| {
            run(&mut caller, index, |$call| $body).map(|status| status as u32)
        })?;
    }};
}

/// Links all host functions that the module may import; also returns their names, by the number
/// under which calls are counted.
pub(crate) fn link(module: &Module) -> wasmtime::Result<(Linker<Guest>, Vec<&'static str>)> {
    let mut linker = Linker::new(module.engine());
    let mut names: Vec<&'static str> = Vec::new();
    host!(linker, names, "proxy_get_header_map_value", |c, map: u32, key: u32, size: u32, to: u32, to_size: u32| c
        .get_header(map, (key, size), (to, to_size)));
    host!(linker, names, "proxy_get_header_map_size", |c, map: u32, to: u32| c.get_header_bytes(map, to));
    host!(linker, names, "proxy_add_header_map_value", |c, map: u32, key: u32, size: u32, value: u32, length: u32| c
        .add_header(map, (key, size), (value, length)));
    host!(
        linker,
        names,
        "proxy_replace_header_map_value",
        |c, map: u32, key: u32, size: u32, value: u32, length: u32| c.replace_header(map, (key, size), (value, length))
    );
    host!(linker, names, "proxy_remove_header_map_value", |c, map: u32, key: u32, size: u32| c
        .remove_header(map, (key, size)));
    host!(linker, names, "proxy_get_header_map_pairs", |c, map: u32, to: u32, to_size: u32| c
        .get_pairs(map, (to, to_size)));
    host!(linker, names, "proxy_set_header_map_pairs", |c, map: u32, pairs: u32, size: u32| c
        .set_pairs(map, (pairs, size)));
    host!(linker, names, "proxy_get_buffer_bytes", |c, buffer: u32, start: u32, size: u32, to: u32, to_size: u32| c
        .get_buffer(buffer, start, size, (to, to_size)));
    host!(linker, names, "proxy_set_buffer_bytes", |c, buffer: u32, start: u32, size: u32, from: u32, length: u32| c
        .set_buffer(buffer, start, size, (from, length)));
    host!(linker, names, "proxy_get_property", |c, path: u32, size: u32, to: u32, to_size: u32| c
        .get_property((path, size), (to, to_size)));
    host!(linker, names, "proxy_set_property", |c, path: u32, size: u32, value: u32, length: u32| c
        .set_property((path, size), (value, length)));
    host!(linker, names, "proxy_get_shared_data", |c, key: u32, size: u32, to: u32, to_size: u32, cas: u32| c
        .get_shared((key, size), (to, to_size), cas));
    host!(linker, names, "proxy_set_shared_data", |c, key: u32, size: u32, value: u32, length: u32, cas: u32| c
        .set_shared((key, size), (value, length), cas));
    host!(linker, names, "proxy_register_shared_queue", |c, name: u32, size: u32, to: u32| c
        .register_queue((name, size), to));
    host!(linker, names, "proxy_resolve_shared_queue", |c, vm: u32, vm_size: u32, name: u32, size: u32, to: u32| c
        .resolve_queue((vm, vm_size), (name, size), to));
    host!(linker, names, "proxy_enqueue_shared_queue", |c, queue: u32, value: u32, size: u32| c
        .enqueue(queue, (value, size)));
    host!(linker, names, "proxy_dequeue_shared_queue", |c, queue: u32, to: u32, to_size: u32| c
        .dequeue(queue, (to, to_size)));
    host!(linker, names, "proxy_define_metric", |c, kind: u32, name: u32, size: u32, to: u32| c.define_metric(
        kind,
        (name, size),
        to
    ));
    host!(linker, names, "proxy_increment_metric", |c, metric: u32, offset: i64| c.increment_metric(metric, offset));
    host!(linker, names, "proxy_record_metric", |c, metric: u32, value: u64| c.record_metric(metric, value));
    host!(linker, names, "proxy_get_metric", |c, metric: u32, to: u32| c.get_metric(metric, to));
    host!(linker, names, "proxy_set_tick_period_milliseconds", |c, period: u32| c.set_tick_period(period));
    host!(linker, names, "proxy_get_current_time_nanoseconds", |c, to: u32| c.realtime(to));
    host!(linker, names, "proxy_set_effective_context", |c, context: u32| c.set_effective_context(context));
    host!(linker, names, "proxy_done", |c| c.done());
    host!(linker, names, "proxy_log", |c, level: u32, text: u32, size: u32| c.log(level, (text, size)));
    host!(linker, names, "proxy_continue_stream", |c, which: u32| c.continue_stream(which));
    host!(linker, names, "proxy_close_stream", |c, which: u32| c.close_stream(which));
    host!(
        linker,
        names,
        "proxy_send_local_response",
        |c, status: u32, details: u32, dsize: u32, body: u32, bsize: u32, headers: u32, hsize: u32, grpc: i32| c
            .send_local_response(status, [(details, dsize), (body, bsize), (headers, hsize)], grpc)
    );
    host!(linker, names, "proxy_http_call", |c,
                                             to: u32,
                                             tsize: u32,
                                             headers: u32,
                                             hsize: u32,
                                             body: u32,
                                             bsize: u32,
                                             trailers: u32,
                                             rsize: u32,
                                             ms: u32,
                                             token: u32| {
        c.http_call([(to, tsize), (headers, hsize), (body, bsize), (trailers, rsize)], ms, token)
    });
    wasi(&mut linker, &mut names)?;
    not_carried(&mut linker, &mut names, module)?;
    Ok((linker, names))
}

fn wasi(linker: &mut Linker<Guest>, names: &mut Vec<&'static str>) -> wasmtime::Result<()> {
    /// WASI's errno for a bad address; a clock that Envoy does not have is [`ENOTSUP`].
    const EFAULT: i32 = 21;
    let errno = |status| match status {
        Status::Ok => 0,
        Status::InvalidMemoryAccess => EFAULT,
        _ => ENOTSUP,
    };
    let (clock, random) = (names.len(), names.len() + 1);
    names.extend(["clock_time_get", "random_get"]);
    let module = "wasi_snapshot_preview1";
    linker.func_wrap(
        module,
        "clock_time_get",
        move |mut caller: Caller<'_, Guest>, id: u32, _precision: u64, to: u32| {
            run(&mut caller, clock, |call| call.clock(id, to)).map(errno)
        },
    )?;
    linker.func_wrap(module, "random_get", move |mut caller: Caller<'_, Guest>, to: u32, size: u32| {
        run(&mut caller, random, |call| call.random(to, size)).map(errno)
    })?;
    Ok(())
}

fn not_carried(linker: &mut Linker<Guest>, names: &mut Vec<&'static str>, module: &Module) -> wasmtime::Result<()> {
    for import in module.imports() {
        let (Some(name), ExternType::Func(kind)) =
            (NOT_CARRIED.iter().find(|name| **name == import.name()), import.ty())
        else {
            continue;
        };
        let index = names.len();
        names.push(name);
        let status = if import.module() == "env" { Status::Unimplemented as i32 } else { ENOTSUP };
        linker.func_new(import.module(), name, kind, move |mut caller, _arguments, results| {
            let why = "this host does not carry it".to_owned();
            run(&mut caller, index, |_| Err(Refusal::Fault(Status::Unimplemented, why)))?;
            results.fill(Val::I32(status));
            Ok(())
        })?;
    }
    Ok(())
}
