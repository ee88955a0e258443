//! A long life: hours of load while servers come and go and parameters change each second.
//!
//! Afterwards two things are asked. *Does anything grow?* Memory and file descriptors of each kind of process, and the linear memory of the guests, are read every few
//! seconds; the lowest tenth of the last quarter may exceed that of the second by [`MEMORY`](watch::MEMORY) and a few pages or descriptors, so that what is filled once
//! (caches, buffers of new servers) does not count and a leak does. The Envoys' descriptors are connections for the most part, so besides there must be as many of them after the last
//! request as before the first. *Do the books balance?* What the clients saw, what each Envoy counted and
//! what the filters counted are the same requests, so the numbers must agree to the last one.

pub mod books;
mod run;
pub mod watch;

pub use run::{Lived, Soak};
