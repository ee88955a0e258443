//! Standing aside: what the filters do in a VM that was made after too many crashes, see [`bloc_policy::crashes`]. Requests and answers pass, stripped of our headers
//! (a caller could otherwise choose its server), and nothing else is read, decided or counted. On the first tick after that the plugin configuration is put in force.

use crate::headers::{BID, ENDPOINTS, LOAD, REJECT};
use crate::host::{self, Headers};
use bloc_policy::crashes::Crashes;
use bloc_policy::units::Timestamp;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

/// The last crashes of all threads.
pub const CRASHES_KEY: &str = "bloc/crashes";

thread_local! {
    /// Until when this VM stands aside, as it was when it was made; the origin of the clock if it does not.
    static UNTIL: Timestamp = {
        let crashes = host::shared_data(CRASHES_KEY).0.map(|value| Crashes::decode(&value)).unwrap_or_default();
        let now = host::now();
        let until = crashes.aside_until(now).unwrap_or(Timestamp::ZERO);
        if until > now {
            log::error!("too many crashes: the filters stand aside for {} s", until.since(now).as_secs());
        }
        until
    };
}

/// Whether this VM stands aside.
pub fn is_aside() -> bool {
    let until = UNTIL.with(|until| *until);
    until != Timestamp::ZERO && host::now() < until
}

/// Notes that this VM crashes.
pub fn record(now: Timestamp) {
    loop {
        let (value, cas) = host::shared_data(CRASHES_KEY);
        let mut crashes = Crashes::decode(&value.unwrap_or_default());
        crashes.record(now);
        // Nobody else crashes all the time, so this ends.
        if host::set_shared_data(CRASHES_KEY, &crashes.encode(), cas) {
            return;
        }
    }
}

/// A request or an attempt that passes.
pub struct Passing;

impl Context for Passing {}

impl HttpContext for Passing {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        strip(Headers::Request)
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        strip(Headers::Response)
    }
}

fn strip(map: Headers) -> Action {
    for name in [ENDPOINTS, BID, LOAD, REJECT] {
        host::remove_header(map, name);
    }
    Action::Continue
}
