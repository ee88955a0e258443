//! A value as it stands in a file, whatever its type, for errors that name it.

use super::error::short;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::fmt::{Display, Formatter};

/// What a file has where a value of some type is expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// `null`, or nothing behind the colon in YAML: the default.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A number without a fraction.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(String),
    /// Several values.
    List,
    /// Names with values.
    Mapping,
}

impl Display for Seen {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Flag(value) => value.fmt(formatter),
            Self::Whole(value) => value.fmt(formatter),
            Self::Number(value) if value.is_finite() && value.abs() >= 1e16 => write!(formatter, "{value:e}"),
            Self::Number(value) => value.fmt(formatter),
            Self::Text(text) => short(&format!("{text:?}")).fmt(formatter),
            Self::List => formatter.write_str("a list"),
            Self::Mapping => formatter.write_str("a mapping"),
        }
    }
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

/// Takes these types, as a file has them.
macro_rules! from {
    ($($kind:ty = $seen:expr;)*) => {
        $(impl From<$kind> for Seen {
            fn from(value: $kind) -> Self {
                $seen(value)
            }
        })*
    };
}
from! { bool = Self::Flag; i64 = Self::Whole; f64 = Self::Number; String = Self::Text; }

struct Look;

/// Takes these kinds of scalars.
macro_rules! scalars {
    ($($visit:ident($value:ident: $kind:ty) = $seen:expr;)*) => {
        $(fn $visit<E: de::Error>(self, $value: $kind) -> Result<Seen, E> {
            Ok($seen)
        })*
    };
}

impl<'de> Visitor<'de> for Look {
    type Value = Seen;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }

    scalars! {
        visit_bool(value: bool) = Seen::Flag(value);
        visit_i64(value: i64) = Seen::Whole(value);
        visit_u64(value: u64) = i64::try_from(value).map_or(Seen::Number(value as f64), Seen::Whole);
        visit_f64(value: f64) = Seen::Number(value);
        visit_str(value: &str) = Seen::Text(value.to_owned());
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seen, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Seen::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Seen::Mapping)
    }
}
