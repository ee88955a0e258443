//! Randomness, handed in by the caller.
//!
//! [`fastrand::Rng`] (wyrand) is the generator in filters, simulator and tests: 8 bytes of state, a
//! few instructions a draw. There is one per VM, seeded by the host's entropy there and by a
//! printed seed in tests. It is not for secrets, and there are none here.

/// A source of uniform numbers.
pub trait Rng {
    /// A uniform number in `0..bound`; 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize;

    /// A uniform number in `[0, 1)`.
    fn unit(&mut self) -> f64;
}

impl Rng for fastrand::Rng {
    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.usize(..bound) }
    }

    fn unit(&mut self) -> f64 {
        self.f64()
    }
}
