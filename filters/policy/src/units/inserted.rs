//! Ordered maps and sets without sorting. `collect` sorts the entries first, which costs some 8 kB
//! of code for each type in a `BTreeMap` or `BTreeSet`. This inserts them one by one.

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::marker::PhantomData;

/// Collects entries into a map or set.
pub fn inserted<C: Default + Extend<T>, T>(entries: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(entries);
    all
}

/// The same for fallible entries.
///
/// # Errors
/// The first error.
pub fn try_inserted<C: Default + Extend<T>, T, E>(entries: impl IntoIterator<Item = Result<T, E>>) -> Result<C, E> {
    let mut all = C::default();
    for entry in entries {
        all.extend([entry?]);
    }
    Ok(all)
}

/// Reads a map and rejects duplicate keys, of which serde would take the last.
///
/// # Errors
/// Those of its keys and values, and a duplicate key.
pub fn once<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + Display,
    V: Deserialize<'de>,
{
    deserializer.deserialize_map(Once(PhantomData))
}

struct Once<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de> + Ord + Display, V: Deserialize<'de>> Visitor<'de> for Once<K, V> {
    type Value = BTreeMap<K, V>;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(key) = map.next_key::<K>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            all.insert(key, map.next_value()?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_all_entries_or_the_first_error() {
        let all: BTreeMap<u32, u32> = inserted([(2, 1), (1, 2), (2, 3)]);
        assert_eq!(all, BTreeMap::from([(1, 2), (2, 3)]));
        let valid: Result<BTreeMap<u32, u32>, u32> = try_inserted([Ok((2, 1)), Ok((1, 2))]);
        assert_eq!(valid, Ok(BTreeMap::from([(1, 2), (2, 1)])));
        let invalid: Result<BTreeMap<u32, u32>, u32> = try_inserted([Ok((2, 1)), Err(7), Err(8)]);
        assert_eq!(invalid, Err(7));
    }
}
