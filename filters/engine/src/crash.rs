//! Crashes on demand, for tests. With the feature `crash`, a request's header `x-bloc-crash: PLACE`
//! makes the callback of that name panic the next time it runs in the thread that saw the request.
//! If PLACE is `memory`, it allocates until no memory is left: a trap without a panic. Without the
//! feature none of this exists.

#[cfg(not(feature = "crash"))]
use crate::host::{Host, Stream};

/// A request is at the place of this name: notes where to panic, and panics if that is here.
#[cfg(not(feature = "crash"))]
pub fn request(_host: &impl Host, _stream: &impl Stream, _place: &str) {}

/// Panics if this place is the one to panic at.
#[cfg(not(feature = "crash"))]
pub fn point(_host: &impl Host, _place: &str) {}

#[cfg(feature = "crash")]
pub use armed::{point, request};

#[cfg(feature = "crash")]
mod armed {
    use crate::host::{Host, Map, Stream};
    use crate::names::CRASHES_KEY;
    use std::cell::RefCell;

    const HEADER: &str = "x-bloc-crash";
    const SHARED_KEY: &str = "bloc/crash";

    thread_local! {
        static ARMED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    /// See the module without the feature.
    pub fn request(host: &impl Host, stream: &impl Stream, place: &str) {
        let value = stream.header(Map::Request, HEADER).map(|value| value.as_ref().to_vec());
        match value {
            // Forgets earlier crashes, so that the next one is not one in a row.
            Some(value) if value == b"forget" => {
                host.overwrite(CRASHES_KEY, &[]);
            }
            // In whichever thread asks the control plane.
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

    /// See the module without the feature.
    pub fn point(host: &impl Host, place: &str) {
        let here = place == "call" && {
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
