//! The data that the threads of one proxy share: values under keys, changed by compare-and-swap.
//!
//! The host gives no number to an absent value, and takes 0 for "in any case". A thread that found
//! nothing and wrote with 0 would overwrite another thread's new value. So reading an absent value
//! gives [`Cas::ABSENT`], and a write with that succeeds only if the value is still absent.

/// The number of a value, which each write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cas(u32);

impl Cas {
    /// There is no value.
    ///
    /// The host accepts any number while the key is absent. Once there is a value, its number
    /// differs: the host counts from 1, and would reach this one after four billion writes.
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
    /// The value, if any, and its number.
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas);
    /// Sets a value if its number is still `cas`. Returns whether it did.
    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool;
    /// Sets a value unconditionally.
    fn overwrite(&self, key: &str, value: &[u8]);
}
