//! What a request costs: the inputs of the criterion benches, and the processing of their results.
//!
//! The benches themselves are not here but in `benches`, the reference filters in `guests`.
//!
//! | module | purpose |
//! |---|---|
//! | [`fleet`] | inputs: a sender and a server that have worked for a while |
//! | [`summary`] | criterion's results in one file |
//! | [`bounds`] | what the decisions may cost, and what they should |
//! | [`environment`] | the environment of a measurement |
//! | [`record`] | the tables in `record/` |

pub mod bounds;
pub mod environment;
pub mod fleet;
pub mod record;
pub mod summary;
