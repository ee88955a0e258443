//! Crashes on demand, for tests. The shipped module lacks the feature `crash`; [`request`] and
//! [`point`] do nothing there. With it, the request header `x-bloc-crash` selects what happens:
//!
//! | value | effect |
//! |---|---|
//! | `call` | the thread that next calls the control plane panics |
//! | `memory` | the callback allocates until no memory is left: a trap without a panic |
//! | `forget` | the count of crashes, which leads to fail-open, starts again at zero |
//! | any other: a callback's name, as given to [`request`] | that callback panics in this thread, until a new VM has replaced the crashed one |

#[cfg(not(feature = "crash"))]
use crate::host::{Host, Stream};

/// Does what the header of the request says, in the callback named `place`; then [`point`].
#[cfg(not(feature = "crash"))]
pub fn request(_host: &impl Host, _stream: &impl Stream, _place: &str) {}

/// Panics if the header of this or an earlier request has named this callback or step.
#[cfg(not(feature = "crash"))]
pub fn point(_host: &impl Host, _place: &str) {}

#[cfg(feature = "crash")]
pub use armed::{point, request};

#[cfg(feature = "crash")]
mod armed {
    use crate::host::{HeaderMap, Host, Stream};
    use crate::names::CRASHES_KEY;
    use std::cell::RefCell;

    const HEADER: &str = "x-bloc-crash";
    const SHARED_KEY: &str = "bloc/crash";

    thread_local! {
        static ARMED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    /// Does what the header of the request says, in the callback named `place`; then [`point`].
    pub fn request(host: &impl Host, stream: &impl Stream, place: &str) {
        let value = stream.header(HeaderMap::Request, HEADER).map(|value| value.as_ref().to_vec());
        match value {
            Some(value) if value == b"forget" => {
                host.overwrite(CRASHES_KEY, &[]);
            }
            Some(value) if value == b"call" => {
                host.overwrite(SHARED_KEY, &value);
            }
            Some(value) if value == b"memory" => loop {
                const LARGE: usize = 1 << 28;
                std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
            },
            Some(value) => ARMED.set(value),
            None => {}
        }
        point(host, place);
    }

    /// Panics if the header of this or an earlier request has named this callback or step.
    pub fn point(host: &impl Host, place: &str) {
        let here = place == "call" && {
            // Of threads that get here at once, only one clears the value and panics.
            let (value, cas) = host.get(SHARED_KEY);
            value.is_some_and(|value| value == b"call") && host.set(SHARED_KEY, &[], cas)
        };
        if here || ARMED.with(|armed| *armed.borrow() == place.as_bytes()) {
            #[allow(clippy::panic, reason = "this is what it is for")]
            {
                panic!("crash on demand: {place}");
            }
        }
    }
}
