//! The numbers of states: they only grow, also over a restart and a step of the clock.
//!
//! A version is the wall clock in unix milliseconds when the state came into being, or one more than the version before it if
//! the clock has not passed that yet. A restarted control plane thus begins above all that it ever issued, without a disk,
//! as long as the clock has not been set back. If it has, proxies present versions from the earlier life that lie above
//! ours: [`Versions::raise_above`] lifts ours over them and remembers up to where versions are of doubtful origin
//! ([`Versions::is_doubtful`]): such a number may stand for two states, so it alone proves nothing.

/// The largest version that a proxy may present, 2^53: beyond it JSON tools lose digits, and honest clocks get there in the
/// year 287,000. It keeps a forged version from lifting ours to the end of u64.
pub const MAX_PRESENTED: u64 = 1 << 53;

/// The newest version and what is known about others' numbers.
#[derive(Debug, Default)]
pub struct Versions {
    newest: u64,
    doubtful_up_to: u64,
}

impl Versions {
    /// The newest version; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The version of a state that comes into being now.
    pub fn advance(&mut self, unix_millis: u64) -> u64 {
        self.newest = self.newest.saturating_add(1).max(unix_millis.min(MAX_PRESENTED));
        self.newest
    }

    /// The same state under a new number, for a proxy whose number does not say what it has.
    pub fn renumber(&mut self) -> u64 {
        self.newest = self.newest.saturating_add(1);
        self.newest
    }

    /// Whether `version` may have been issued in an earlier life.
    pub fn is_doubtful(&self, version: u64) -> bool {
        version > self.newest || version <= self.doubtful_up_to
    }

    /// A version above `version` and above ours; all up to it are doubtful from now on.
    pub fn raise_above(&mut self, version: u64) -> u64 {
        self.newest = self.newest.max(version).saturating_add(1);
        self.doubtful_up_to = self.newest;
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_clock_and_never_goes_back() {
        let mut versions = Versions::default();
        assert_eq!(versions.advance(1_000), 1_000);
        assert_eq!(versions.advance(1_000), 1_001, "two changes within a millisecond");
        assert_eq!(versions.advance(500), 1_002, "the clock was set back");
        assert_eq!(versions.advance(2_000), 2_000);
        assert!(!versions.is_doubtful(2_000));
    }

    #[test]
    fn rises_above_an_earlier_life() {
        let mut versions = Versions::default();
        versions.advance(1_000);
        assert!(versions.is_doubtful(5_000));
        assert_eq!(versions.raise_above(5_000), 5_001);
        assert!(versions.is_doubtful(5_001), "the earlier life may have issued 5001 too");
        assert_eq!(versions.advance(1_100), 5_002);
        assert!(!versions.is_doubtful(5_002));
    }

    #[test]
    fn a_clock_gone_mad_does_not_end_the_numbers() {
        let mut versions = Versions::default();
        assert_eq!(versions.advance(u64::MAX), MAX_PRESENTED);
        assert_eq!(versions.advance(u64::MAX), MAX_PRESENTED + 1);
    }
}
