//! What the threads of one proxy share, and what each knows of itself.
//!
//! | file | decides |
//! |---|---|
//! | [`shared`] | the data that threads share |
//! | [`roster`] | which threads and services there are |
//! | [`stall`] | whether a thread was stopped, and so missed what others did |
//! | [`crashes`] | when a worker fails open because VMs crashed too often |
//! | [`cpu`] | how much CPU the application has, and how threads share that |
//! | [`activity`] | when a stream is idle and does not count |

pub mod activity;
pub mod cpu;
pub mod crashes;
pub mod roster;
pub mod shared;
pub mod stall;
