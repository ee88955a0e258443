//! The same for memory: four processes take and give back memory in turns, in real control groups.
//!
//! Each process uses a base. One after the other takes a burst more, keeps it, and gives it back.
//! The first one also grows slowly. The kernel kills a process that needs more than the limit of
//! its group; it is started again at once, without that burst.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | who wants how much, and when |
//! | [`hog`] | the process |
//! | [`allocator`] | who sets the limits |
//! | [`stand`] | the containers of a turn |
//! | [`watch`] | reads the files of the groups |
//! | [`waits`] | how long a container at its limit waits |

pub mod allocator;
pub mod hog;
pub mod plan;
pub mod testbed;
pub mod waits;
pub mod watch;
