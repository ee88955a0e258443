//! The fields and values that came after 0.1.0, and what a proxy without them gets.
//!
//! A field is named by its path in JSON, without the keys of maps and lists. A value is named where
//! only some are allowed. Whoever adds a field or a value adds a row here, with a new
//! [feature](super::ALL): a test of the control plane compares the types with the base.

use super::Feature;

/// What a proxy gets that lacks the feature of a field or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The service without the field or, if that is invalid, without the field around it. For what
    /// only works less well without it.
    Omit,
    /// Nothing of the service: its requests pass untouched. For what would be wrong without the
    /// field.
    Withhold,
}

/// One field, or one value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The path of the field, such as `capacity.limit`.
    pub field: &'static str,
    /// The value; none: the field, whatever its value.
    pub value: Option<&'static str>,
    /// The feature that it needs.
    pub feature: Feature,
    /// What a proxy without the feature gets.
    pub instead: Instead,
}

/// The rows of [`ServiceSpec`](crate::config::ServiceSpec), which the control plane sends. Both
/// sides ignore unknown members of all else that they send each other.
pub const SERVICE: &[Rule] = &[];
