//! The parameters of the rule.

use crate::cores::Cores;

/// How CPU moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub grow: f64,
    pub shrink: f64,
    pub slack: Cores,
    /// In steps.
    pub window: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { grow: 1.0, shrink: 0.8, slack: Cores::new(0.2), window: 3 }
    }
}

/// The fraction of its quota above the level that a container gives in a step: half of it in 7
/// steps.
pub const EVEN: f64 = 0.1;
/// The fraction of the slack that a container keeps while others lack CPU.
pub const KEEP: f64 = 0.25;
/// Steps over which the need of a node for a limit over nodes is averaged.
pub const WANTED: usize = 5;
/// The smallest change of a quota by growing and shrinking, as a fraction: each one is a write.
pub const LEAST_CHANGE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_module_text() {
        let Rule { grow, shrink, slack, window } = Rule::default();
        assert_eq!((grow, shrink, slack, window), (1.0, 0.8, Cores::milli(200), 3));
    }
}
