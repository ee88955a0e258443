//! How the threads of one proxy share what they know, and what each knows of itself.
//!
//! | file | decides |
//! |---|---|
//! | [`shared`] | the memory and the messages that threads share |
//! | [`roster`] | which threads there are |
//! | [`awake`] | whether a thread was stopped, and so missed what others did |
//! | [`crashes`] | when a worker fails open because the proxy's VMs crashed too often |
//! | [`cpu`] | what the application has of CPU, and how the threads share that |
//! | [`activity`] | when a stream is idle and does not count |

pub mod activity;
pub mod awake;
pub mod cpu;
pub mod crashes;
pub mod roster;
pub mod shared;
