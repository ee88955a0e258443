//! A long life: hours of load and overload while servers come and go and parameters change each
//! second.
//!
//! A steady load keeps below what the servers can do. Every 20 s a [burst](bursts) exceeds it, so
//! that servers bounce and reject, callers retry, and clients are refused. The run fails when any
//! of these did not happen, because then it shows nothing of them. Afterwards it asks two things.
//!
//! *Does anything grow?* The run reads the memory and the file descriptors of each kind of process,
//! and the linear memory of the guests, every few seconds. It leaves out the first quarter, and at
//! least the first 90 s, in which caches fill. It bounds the [slope] of the rest, summed over the
//! processes of the kind:
//!
//! | | bound, per minute | what it would see |
//! |---|---|---|
//! | heap of the Envoys: allocated and not freed; resident memory of the control plane | 128 KiB | 64 bytes kept for each of 300 requests per second: 1,125 KiB |
//! | file descriptors of the control plane | 1 | one kept for each change: 60 |
//!
//! A percentage would allow a process of 600 MiB what it allows one of 10; a leak does not depend
//! on how much there is already. Resident memory of the Envoys is shown and not bounded: their
//! allocator keeps what the largest burst needed, 10 to 80 MiB more at once on a busy machine, and
//! a leak would fill that first. What Envoy says it has allocated leaves that out. It also leaves
//! out what V8 maps by itself, most of which is the guests' linear memory.
//!
//! The heaps' floors moved by 0.4 MiB in the last three minutes of five, on a machine with a load
//! average of 8 to 21. With the connections of the pools they may drift by 2 MiB. Within 16 minutes
//! such a drift is a slope of 128 KiB per minute, so a run shorter than 22 minutes has a wider
//! bound: 2 MiB over the time that is judged. After 6 minutes that is less than half of what the
//! leak of 64 bytes makes. A run of 3 minutes, the shortest, can miss that leak; it prints the
//! bound that it held.
//!
//! Linear memory never shrinks, and may be a page larger in the last quarter than in the second.
//! The Envoys' descriptors are connections for the most part, whose number follows the load. There
//! must be as many of them, and at most 4 more, when all is idle after the last request as before
//! the first.
//!
//! *Do the books balance?* What the clients saw, what each Envoy counted and what the filters
//! counted are the same requests, so the numbers must agree to the last one.

pub mod books;
pub mod bursts;
mod run;
pub mod slope;
pub mod watch;

pub use run::{Lived, Soak};
