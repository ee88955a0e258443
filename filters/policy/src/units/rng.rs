//! Randomness, passed in by the caller: [`fastrand::Rng`] (wyrand) with 8 bytes of state and a few
//! instructions a draw. The host's entropy seeds it in each VM, and a printed seed in tests. Not
//! for secrets.

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
