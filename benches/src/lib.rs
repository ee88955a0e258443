//! What a request pays: the inputs of the criterion benches, and what becomes of their results.
//!
//! | module | what it is for |
//! |---|---|
//! | [`fleet`] | inputs: a sender and a server that have worked for a while |
//! | [`summary`] | criterion's results in one file |
//! | [`bounds`] | what the decisions may cost, and what they should |
//! | [`environment`] | where and of what a measurement was taken |
//! | [`record`] | the tables in `record/` |

pub mod bounds;
pub mod environment;
pub mod fleet;
pub mod record;
pub mod summary;
