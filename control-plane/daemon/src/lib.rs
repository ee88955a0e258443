//! What the control plane and the node agent share: how they run, and what they say to each other.
//!
//! | module | what it is for |
//! |---|---|
//! | [`ranges`] | which names and numbers are allowed |

pub mod ranges;
