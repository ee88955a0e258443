//! The contexts that the SDK calls: each passes its callbacks on to its part of `bloc-engine`.

use crate::envoy::{Envoy, dequeue, plugin_configuration, post_answer, root_id};
use crate::stream::EnvoyStream;
use bloc_engine::fail_open::{Passing, count_crash};
use bloc_engine::filter::{Filter, Flow};
use bloc_engine::root::{Engine, NewFilter, Root};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};
use std::cell::OnceCell;
use std::rc::Rc;

thread_local! {
    static ENGINE: OnceCell<Rc<Engine<Envoy>>> = const { OnceCell::new() };
}

fn engine() -> Rc<Engine<Envoy>> {
    ENGINE.with(|engine| Rc::clone(engine.get_or_init(|| Engine::new(Envoy))))
}

/// From now on a panic runs crash recovery first, and then the previous hook.
pub fn recover_from_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = ENGINE.try_with(|engine| match engine.get() {
            Some(engine) => engine.recover(),
            // The panic came while the engine was being created.
            None => count_crash(&Envoy),
        });
        before(panic);
    }));
}

/// Creates the root context of a plugin.
pub fn root(context: u32) -> Box<dyn RootContext> {
    Box::new(Plugged { context, root: None })
}

/// A root context; it has a plugin once it is configured.
struct Plugged {
    context: u32,
    root: Option<Root<Envoy>>,
}

impl Context for Plugged {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _trailers: usize) {
        if let Some(root) = &self.root {
            root.call_answered(token, (headers > 0).then(|| post_answer(body_size)).as_ref());
        }
    }
}

impl RootContext for Plugged {
    fn on_configure(&mut self, _size: usize) -> bool {
        let plugged = engine().plug(self.context, &root_id(), plugin_configuration());
        let accepted = plugged.is_some();
        self.root = plugged.or(self.root.take());
        accepted
    }

    fn on_tick(&mut self) {
        if let Some(root) = &mut self.root {
            root.tick();
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        if let Some(root) = &self.root {
            root.messages(std::iter::from_fn(|| dequeue(queue)));
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        let stream = EnvoyStream::new(context);
        // Without a plugin a request passes; no host should create such a stream.
        let Some(root) = &self.root else { return Some(Box::new(Http(Passing(stream)))) };
        Some(match root.filter(stream) {
            NewFilter::Inbound(filter) => Box::new(Http(filter)),
            NewFilter::Outbound(filter) => Box::new(Http(filter)),
            NewFilter::Attempt(filter) => Box::new(Http(filter)),
            NewFilter::Passing(filter) => Box::new(Http(filter)),
        })
    }
}

/// The context of one stream.
struct Http<F>(F);

impl<F> Context for Http<F> {}

impl<F: Filter> HttpContext for Http<F> {
    fn on_http_request_headers(&mut self, _headers: usize, end_of_stream: bool) -> Action {
        match self.0.request_headers(end_of_stream) {
            Flow::Continue => Action::Continue,
            Flow::Pause => Action::Pause,
        }
    }

    fn on_http_response_headers(&mut self, _headers: usize, end_of_stream: bool) -> Action {
        self.0.response_headers(end_of_stream);
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _trailers: usize) -> Action {
        self.0.response_trailers();
        Action::Continue
    }
}
