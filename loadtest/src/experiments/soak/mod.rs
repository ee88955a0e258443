//! A long run: hours of load and overload while servers come and go and parameters change each
//! second.
//!
//! The steady load stays below the servers' total rate. Every 20 s a [burst](bursts) exceeds it, so
//! that servers bounce and reject, callers retry, and requests are shed. The run fails if any of
//! these did not happen, because then it shows nothing about them. Afterwards it asks two
//! questions.
//!
//! *Does anything grow?* Every few seconds the run reads the memory and the file descriptors of
//! each kind of process, and the linear memory of the guests. It leaves out the first quarter, and
//! at least the first 90 s, in which caches fill. It bounds the [slope] of the rest, summed over
//! the processes of the kind:
//!
//! | | bound, per minute | a leak that it would find |
//! |---|---|---|
//! | heap of the Envoys: allocated and not freed; resident memory of the control plane | 128 KiB | 64 bytes kept for each of 300 requests per second: 1,125 KiB |
//! | file descriptors of the control plane | 1 | one kept for each change: 60 |
//!
//! A bound in percent would allow a process of 600 MiB more than one of 10, but a leak does not
//! depend on the size of the process. Resident memory of the Envoys is shown and not bounded. Their
//! allocator keeps what the largest burst needed, 10 to 80 MiB more at once on a busy machine, and
//! a leak would fill that first. Envoy's own count of allocated memory leaves that out. It also
//! leaves out what V8 maps by itself, most of which is the guests' linear memory.
//!
//! The heaps' floors moved by 0.4 MiB in the last three minutes of five, on a machine with a load
//! average of 8 to 21. With the connections of the pools they may drift by 2 MiB. Within 16 minutes
//! such a drift is a slope of 128 KiB per minute, so a run shorter than 22 minutes has a wider
//! bound: 2 MiB over the judged time. After 6 minutes that is less than half of the slope that the
//! leak of 64 bytes makes. A run of 3 minutes, the shortest, can miss that leak; it prints the
//! bound that it used.
//!
//! Linear memory never shrinks, and may be a page larger in the last quarter than in the second.
//! The Envoys' descriptors are mostly connections, whose number follows the load. When all is idle
//! after the last request, there may be at most 4 more than before the first.
//!
//! *Do all parts count the same requests?* The clients, the Envoys and the filters do, so the
//! numbers must be exactly equal.

pub mod books;
pub mod bursts;
pub mod command;
pub mod page;
mod run;
pub mod slope;
pub mod watch;

pub use run::{Lived, Soak};
