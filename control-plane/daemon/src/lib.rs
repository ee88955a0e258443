//! What the control plane and the node agent share: how they run, and what they say to each other.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cpu`] | the messages of `POST /v1/cpu` |
//! | [`ranges`] | which names and numbers are allowed |

pub mod cpu;
pub mod ranges;
