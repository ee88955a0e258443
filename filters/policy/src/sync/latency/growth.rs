//! The counts and histograms of a period, and their bytes in shared data.
//!
//! ```text
//! growth    = numbers histograms
//! numbers   = varint { varint }
//! histogram = sum:varint pairs:varint { bucket:byte count:varint }
//! ```

use super::histogram::Histogram;

/// Counts and histograms; the caller defines their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Counts.
    pub numbers: Vec<u64>,
    /// Histograms.
    pub histograms: Vec<Histogram>,
}

impl Growth {
    /// Whether it contains nothing.
    pub fn is_empty(&self) -> bool {
        self.numbers.iter().all(|number| *number == 0) && self.histograms.iter().all(Histogram::is_empty)
    }

    /// Adds another period.
    pub fn add(&mut self, other: &Self) {
        let numbers = self.numbers.len().max(other.numbers.len());
        self.numbers.resize(numbers, 0);
        for (own, other) in self.numbers.iter_mut().zip(&other.numbers) {
            *own = own.saturating_add(*other);
        }
        let histograms = self.histograms.len().max(other.histograms.len());
        self.histograms.resize_with(histograms, Histogram::default);
        for (own, other) in self.histograms.iter_mut().zip(&other.histograms) {
            own.add(other);
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint(out, self.numbers.len() as u64);
        self.numbers.iter().for_each(|number| varint(out, *number));
        varint(out, self.histograms.len() as u64);
        for Histogram { sum_us, counts } in &self.histograms {
            varint(out, *sum_us);
            varint(out, counts.len() as u64);
            for (bucket, count) in counts {
                out.push(*bucket);
                varint(out, *count);
            }
        }
    }
}

/// Appends a number in groups of seven bits, the lowest first.
pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The unread bytes. The bytes left limit each length.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.varint()?;
        if length > self.0.len() as u64 {
            return None;
        }
        (0..length).map(|_| one(self)).collect()
    }

    pub fn growth(&mut self) -> Option<Growth> {
        let numbers = self.list(Self::varint)?;
        let histograms = self.list(|from| {
            let sum_us = from.varint()?;
            let counts = from.list(|from| Some((from.byte()?, from.varint()?)))?;
            Some(Histogram { sum_us, counts }).filter(Histogram::is_valid)
        })?;
        Some(Growth { numbers, histograms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn growth() -> impl Strategy<Value = Growth> {
        let counts = prop::collection::btree_map(0_u8..146, 1_u64.., 0..20);
        let histogram = (any::<u64>(), counts)
            .prop_map(|(sum_us, counts)| Histogram { sum_us, counts: counts.into_iter().collect() });
        (prop::collection::vec(any::<u64>(), 0..6), prop::collection::vec(histogram, 0..3))
            .prop_map(|(numbers, histograms)| Growth { numbers, histograms })
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(one in growth(), other in growth()) {
            let mut bytes = Vec::new();
            one.encode(&mut bytes);
            other.encode(&mut bytes);
            let mut from = Reader(&bytes);
            prop_assert_eq!((from.growth(), from.growth()), (Some(one), Some(other)));
            prop_assert!(from.0.is_empty());
        }

        #[test]
        fn reads_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let read = Reader(&bytes).growth();
            prop_assert!(read.is_none_or(|growth| growth.histograms.iter().all(Histogram::is_valid)));
        }
    }

    #[test]
    fn adds_what_happened_in_both() {
        let histogram = |bucket| Histogram { sum_us: 5, counts: vec![(bucket, 1)] };
        let mut sum = Growth { numbers: vec![1], histograms: vec![histogram(7)] };
        sum.add(&Growth { numbers: vec![2, 3], histograms: vec![histogram(7), histogram(9)] });
        let twice = Histogram { sum_us: 10, counts: vec![(7, 2)] };
        assert_eq!(sum, Growth { numbers: vec![3, 3], histograms: vec![twice, histogram(9)] });
        assert!(!sum.is_empty() && Growth { numbers: vec![0], histograms: vec![Histogram::default()] }.is_empty());
        assert!(!Growth { numbers: vec![0, 1], histograms: vec![] }.is_empty());
        assert!(!Growth { numbers: vec![], histograms: vec![histogram(1)] }.is_empty());
    }
}
