//! The names of the headers that the filters read, write and strip.

pub use bloc_policy::wire::headers::*;
