//! The data that the threads of one proxy share: values under keys, each guarded by a number that
//! changes whenever the value is set.
//!
//! The host gives no number to a key without a value, and takes the number 0 for "in any case". So
//! a thread that finds nothing and then sets with 0 overwrites what another thread has put there in
//! between. Reading therefore gives [`Cas::ABSENT`] where there is nothing. With it the host stores
//! a value only if there is still none.

/// The number that guards a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cas(u32);

impl Cas {
    /// There is no value.
    ///
    /// A value is stored with this number if the key has none, whatever the number is. If the key
    /// has a value by then, the numbers differ and nothing is stored. They are equal only if the
    /// host has given just that value this number. It counts from 1 on, so it gets there after four
    /// billion sets.
    pub const ABSENT: Self = Self(u32::MAX);

    /// The number that the host gave.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number for the host.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The data that the threads share.
pub trait Shared {
    /// A value, if there is one, and its number.
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas);
    /// Sets a value if its number is still `cas`; whether it was set.
    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool;
    /// Sets a value in any case.
    fn overwrite(&self, key: &str, value: &[u8]);
}
