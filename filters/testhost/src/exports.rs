//! The guest's callbacks. A callback that the module does not export does nothing, as in Envoy.

use crate::guest::Guest;
use wasmtime::{Instance, Result, Store, TypedFunc, WasmParams, WasmResults};

/// The exports that name the ABI version of a module.
const VERSIONS: [&str; 2] = ["proxy_abi_version_0_2_1", "proxy_abi_version_0_2_0"];
/// `Continue` of the ABI.
const CONTINUE: u32 = 0;

type Callback<Params, Results = ()> = Option<TypedFunc<Params, Results>>;

/// What the host calls.
pub(crate) struct Exports {
    pub(crate) allocate: Callback<u32, u32>,
    initialise: Callback<()>,
    create: Callback<(u32, u32)>,
    start: Callback<(u32, u32), u32>,
    configure: Callback<(u32, u32), u32>,
    tick: Callback<u32>,
    queue_ready: Callback<(u32, u32)>,
    http_call_response: Callback<(u32, u32, u32, u32, u32)>,
    request_headers: Callback<(u32, u32, u32), u32>,
    request_body: Callback<(u32, u32, u32), u32>,
    response_headers: Callback<(u32, u32, u32), u32>,
    response_body: Callback<(u32, u32, u32), u32>,
    response_trailers: Callback<(u32, u32), u32>,
    log: Callback<u32>,
    done: Callback<u32, u32>,
    delete: Callback<u32>,
}

fn call<P: WasmParams, R: WasmResults>(
    store: &mut Store<Guest>,
    callback: &Callback<P, R>,
    parameters: P,
    absent: R,
) -> Result<R> {
    callback.as_ref().map_or(Ok(absent), |callback| callback.call(store, parameters))
}

impl Exports {
    /// Finds the callbacks of an instance.
    pub(crate) fn find(store: &mut Store<Guest>, instance: &Instance) -> Self {
        fn get<P: WasmParams, R: WasmResults>(store: &mut Store<Guest>, from: &Instance, name: &str) -> Callback<P, R> {
            let function = from.get_func(&mut *store, name)?;
            let typed = function.typed(&*store);
            Some(typed.unwrap_or_else(|error| panic!("{name} is not what the ABI says: {error:#}")))
        }
        assert!(
            VERSIONS.iter().any(|version| instance.get_func(&mut *store, version).is_some()),
            "the module does not say that it speaks Proxy-Wasm 0.2"
        );
        let memory_allocate = get(store, instance, "proxy_on_memory_allocate");
        Self {
            allocate: memory_allocate.or_else(|| get(store, instance, "malloc")),
            initialise: get(store, instance, "_initialize").or_else(|| get(store, instance, "_start")),
            create: get(store, instance, "proxy_on_context_create"),
            start: get(store, instance, "proxy_on_vm_start"),
            configure: get(store, instance, "proxy_on_configure"),
            tick: get(store, instance, "proxy_on_tick"),
            queue_ready: get(store, instance, "proxy_on_queue_ready"),
            http_call_response: get(store, instance, "proxy_on_http_call_response"),
            request_headers: get(store, instance, "proxy_on_request_headers"),
            request_body: get(store, instance, "proxy_on_request_body"),
            response_headers: get(store, instance, "proxy_on_response_headers"),
            response_body: get(store, instance, "proxy_on_response_body"),
            response_trailers: get(store, instance, "proxy_on_response_trailers"),
            log: get(store, instance, "proxy_on_log"),
            done: get(store, instance, "proxy_on_done"),
            delete: get(store, instance, "proxy_on_delete"),
        }
    }

    pub(crate) fn initialise(&self, store: &mut Store<Guest>) -> Result<()> {
        call(store, &self.initialise, (), ())
    }

    pub(crate) fn create(&self, store: &mut Store<Guest>, context: u32, root: u32) -> Result<()> {
        call(store, &self.create, (context, root), ())
    }

    pub(crate) fn start(&self, store: &mut Store<Guest>, root: u32, size: u32) -> Result<bool> {
        call(store, &self.start, (root, size), 1).map(|accepted| accepted != 0)
    }

    pub(crate) fn configure(&self, store: &mut Store<Guest>, root: u32, size: u32) -> Result<bool> {
        call(store, &self.configure, (root, size), 1).map(|accepted| accepted != 0)
    }

    pub(crate) fn tick(&self, store: &mut Store<Guest>, root: u32) -> Result<()> {
        call(store, &self.tick, root, ())
    }

    pub(crate) fn queue_ready(&self, store: &mut Store<Guest>, root: u32, queue: u32) -> Result<()> {
        call(store, &self.queue_ready, (root, queue), ())
    }

    pub(crate) fn http_call_response(
        &self,
        store: &mut Store<Guest>,
        root: u32,
        token: u32,
        headers: u32,
        body: u32,
    ) -> Result<()> {
        call(store, &self.http_call_response, (root, token, headers, body, 0), ())
    }

    pub(crate) fn request_headers(&self, store: &mut Store<Guest>, context: u32, size: u32, end: u32) -> Result<u32> {
        call(store, &self.request_headers, (context, size, end), CONTINUE)
    }

    pub(crate) fn request_body(&self, store: &mut Store<Guest>, context: u32, size: u32, end: u32) -> Result<u32> {
        call(store, &self.request_body, (context, size, end), CONTINUE)
    }

    pub(crate) fn response_headers(&self, store: &mut Store<Guest>, context: u32, size: u32, end: u32) -> Result<u32> {
        call(store, &self.response_headers, (context, size, end), CONTINUE)
    }

    pub(crate) fn response_trailers(&self, store: &mut Store<Guest>, context: u32, size: u32) -> Result<u32> {
        call(store, &self.response_trailers, (context, size), CONTINUE)
    }

    pub(crate) fn response_body(&self, store: &mut Store<Guest>, context: u32, size: u32, end: u32) -> Result<u32> {
        call(store, &self.response_body, (context, size, end), CONTINUE)
    }

    pub(crate) fn log(&self, store: &mut Store<Guest>, context: u32) -> Result<()> {
        call(store, &self.log, context, ())
    }

    pub(crate) fn done(&self, store: &mut Store<Guest>, context: u32) -> Result<bool> {
        call(store, &self.done, context, 1).map(|done| done != 0)
    }

    pub(crate) fn delete(&self, store: &mut Store<Guest>, context: u32) -> Result<()> {
        call(store, &self.delete, context, ())
    }
}
