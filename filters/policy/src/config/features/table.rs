//! A field or a value that came after 0.1.0, and what a proxy without it gets.
//!
//! A field is named by its path in JSON, without the keys of maps and lists. A value is named where
//! only some are allowed. A test of the control plane compares the fields and values with those of
//! 0.1.0.

/// The name of something that came after 0.1.0: lower-case letters and `-`.
pub type Feature = &'static str;

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
