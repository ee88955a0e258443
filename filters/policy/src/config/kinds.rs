//! Kinds of parameters: how a value is read, checked, compared and shown.

use super::error::ConfigError;
use super::routing::RoutingKind;
use super::seen::Seen;
use serde::de::{DeserializeSeed, Error};
use serde::{Deserialize, Deserializer};
use std::time::Duration;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One kind, with the default and the range of one parameter.
pub trait Kind: Copy {
    /// A value of the right type, but perhaps out of range.
    type Written: Clone + Into<Seen>;
    /// A value that was checked.
    type Value: Copy;

    /// What stands in a file, if it is of the right type.
    fn take(self, seen: Seen) -> Option<Self::Written>;

    /// What is allowed, in words.
    fn allowed(self) -> String;

    /// The same, for a value of another type.
    fn expected(self) -> String {
        self.allowed()
    }

    /// The value, if it is allowed.
    fn check(self, written: &Self::Written) -> Option<Self::Value>;

    /// What holds if nothing was written.
    fn default(self) -> Self::Value;

    /// The value as text for comparisons: the same in every build.
    fn canonical(value: &Self::Value) -> String;

    /// The value as people read it.
    #[cfg(feature = "schema")]
    fn shown(value: &Self::Value) -> String {
        Self::canonical(value)
    }

    /// The default as people read it.
    #[cfg(feature = "schema")]
    fn default_text(self) -> String {
        Self::shown(&self.default())
    }

    /// The JSON Schema of what a user writes.
    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value;

    /// Reads a value; none: `null`, which means the default.
    ///
    /// # Errors
    /// The value and what is allowed, if it is of another type.
    fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Self::Written>, D::Error> {
        let seen = Seen::deserialize(deserializer)?;
        if seen == Seen::Null {
            return Ok(None);
        }
        let shown = seen.to_string();
        let refusal = || D::Error::custom(format_args!("{shown} is not allowed; allowed: {}", self.expected()));
        self.take(seen).map(Some).ok_or_else(refusal)
    }

    /// Checks what was written; none: the default.
    ///
    /// # Errors
    /// The value, and what is allowed; the path is `name` or below it.
    fn checked(self, name: &str, written: Option<&Self::Written>) -> Result<Self::Value, ConfigError> {
        let Some(written) = written else { return Ok(self.default()) };
        let refusal = || ConfigError::out_of_range(name.into(), written.clone().into(), self.allowed());
        self.check(written).ok_or_else(refusal)
    }
}

/// Reads a value of this kind.
pub(super) struct Read<K>(pub K);

impl<'de, K: Kind> DeserializeSeed<'de> for Read<K> {
    type Value = Option<K::Written>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.read(deserializer)
    }
}

/// Refuses a member that nobody knows. The path of the error has its name, as it comes from its
/// value.
pub(super) struct Unknown<'a>(pub &'a str, pub &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Unknown<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::unknown_field(self.0, self.1))
    }
}

/// A parameter without a default; that of its kind is not used.
#[derive(Clone, Copy, Debug)]
pub struct Maybe<K>(pub K);

impl<K: Kind> Kind for Maybe<K> {
    type Written = K::Written;
    type Value = Option<K::Value>;

    fn take(self, seen: Seen) -> Option<K::Written> {
        self.0.take(seen)
    }

    fn allowed(self) -> String {
        self.0.allowed()
    }

    fn expected(self) -> String {
        self.0.expected()
    }

    fn check(self, written: &K::Written) -> Option<Option<K::Value>> {
        self.0.check(written).map(Some)
    }

    fn default(self) -> Option<K::Value> {
        None
    }

    fn canonical(value: &Option<K::Value>) -> String {
        value.as_ref().map_or_else(|| "none".to_owned(), K::canonical)
    }

    #[cfg(feature = "schema")]
    fn shown(value: &Option<K::Value>) -> String {
        value.as_ref().map_or_else(|| "none".to_owned(), K::shown)
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        self.0.schema()
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    pub default: u32,
    pub least: u32,
    pub most: u32,
}

impl Kind for Whole {
    // Wider than allowed, so that the error for a negative or a huge one can name it.
    type Written = i64;
    type Value = u32;

    fn take(self, seen: Seen) -> Option<i64> {
        if let Seen::Whole(value) = seen { Some(value) } else { None }
    }

    fn allowed(self) -> String {
        format!("{} to {}", self.least, self.most)
    }

    fn expected(self) -> String {
        format!("a whole number, {}", self.allowed())
    }

    fn check(self, written: &i64) -> Option<u32> {
        u32::try_from(*written).ok().filter(|value| (self.least..=self.most).contains(value))
    }

    fn default(self) -> u32 {
        self.default
    }

    fn canonical(value: &u32) -> String {
        value.to_string()
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        serde_json::json!({"type": "integer", "minimum": self.least, "maximum": self.most})
    }
}

/// A number, perhaps with a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub default: f64,
    pub most: f64,
    /// Whether 0 is allowed.
    pub zero: bool,
}

impl Kind for Number {
    type Written = f64;
    type Value = f64;

    fn take(self, seen: Seen) -> Option<f64> {
        match seen {
            Seen::Whole(value) => Some(value as f64),
            Seen::Number(value) => Some(value),
            _ => None,
        }
    }

    fn allowed(self) -> String {
        let range = if self.zero { "from 0 to" } else { "above 0 and at most" };
        format!("a number {range} {}", self.most)
    }

    fn check(self, written: &f64) -> Option<f64> {
        // -0 equals 0, and their sum is 0.
        Some(written + 0.0).filter(|value| (0.0..=self.most).contains(value) && (self.zero || *value > 0.0))
    }

    fn default(self) -> f64 {
        self.default
    }

    fn canonical(value: &f64) -> String {
        format!("{:016x}", value.to_bits())
    }

    #[cfg(feature = "schema")]
    fn shown(value: &f64) -> String {
        value.to_string()
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        let least = if self.zero { "minimum" } else { "exclusiveMinimum" };
        serde_json::json!({"type": "number", least: 0, "maximum": self.most})
    }
}

/// A duration with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub default: Duration,
    pub least: Duration,
    pub most: Duration,
}

impl Time {
    /// At most an hour.
    pub(super) const fn new(default: Duration, least: Duration) -> Self {
        Self { default, least, most: HOUR }
    }
}

impl Kind for Time {
    type Written = String;
    type Value = Duration;

    fn take(self, seen: Seen) -> Option<String> {
        if let Seen::Text(text) = seen { Some(text) } else { None }
    }

    fn allowed(self) -> String {
        let (least, most) = (humantime::format_duration(self.least), humantime::format_duration(self.most));
        format!("a duration with its unit (such as 250ms), {least} to {most}")
    }

    fn check(self, written: &String) -> Option<Duration> {
        humantime::parse_duration(written).ok().filter(|value| (self.least..=self.most).contains(value))
    }

    fn default(self) -> Duration {
        self.default
    }

    fn canonical(value: &Duration) -> String {
        value.as_nanos().to_string()
    }

    #[cfg(feature = "schema")]
    fn shown(value: &Duration) -> String {
        humantime::format_duration(*value).to_string()
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        let pattern = r"^(\s*\d+\s*(ns|us|ms|s|sec|secs|m|min|mins|h|hr|hour|hours))+\s*$";
        serde_json::json!({"type": "string", "pattern": pattern})
    }
}

/// `true` or `false`, which is the default.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The default as people read it; another parameter may change it.
    pub default_text: &'static str,
}

impl Kind for Flag {
    type Written = bool;
    type Value = bool;

    fn take(self, seen: Seen) -> Option<bool> {
        if let Seen::Flag(value) = seen { Some(value) } else { None }
    }

    fn allowed(self) -> String {
        "true or false".to_owned()
    }

    fn check(self, written: &bool) -> Option<bool> {
        Some(*written)
    }

    fn default(self) -> bool {
        false
    }

    fn canonical(value: &bool) -> String {
        (if *value { "true" } else { "false" }).to_owned()
    }

    #[cfg(feature = "schema")]
    fn default_text(self) -> String {
        self.default_text.to_owned()
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        serde_json::json!({"type": "boolean"})
    }
}

/// A routing.
#[derive(Clone, Copy, Debug)]
pub struct Choice;

impl Kind for Choice {
    type Written = RoutingKind;
    type Value = RoutingKind;

    fn take(self, seen: Seen) -> Option<RoutingKind> {
        let Seen::Text(text) = seen else { return None };
        RoutingKind::ALL.iter().copied().find(|routing| routing.name() == text)
    }

    fn allowed(self) -> String {
        RoutingKind::offered().map(RoutingKind::name).collect::<Vec<_>>().join(", ")
    }

    fn check(self, written: &RoutingKind) -> Option<RoutingKind> {
        // Envoy has the others; they are baselines of the simulator.
        Some(if written.is_offered() { *written } else { RoutingKind::LeastRequest })
    }

    fn default(self) -> RoutingKind {
        RoutingKind::default()
    }

    fn canonical(value: &RoutingKind) -> String {
        value.name().to_owned()
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        let names: Vec<_> = RoutingKind::ALL.iter().map(|routing| routing.name()).collect();
        serde_json::json!({"type": "string", "enum": names})
    }
}
