//! The parameters of an application.

use crate::cores::Cores;

/// How CPU moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The part of what is free that a container gets which is always throttled; 0.01 to 1.
    pub grow: f64,
    /// The part of the mean slack that a container gives; 0.01 to 1.
    pub shrink: f64,
    /// Unused CPU up to which nothing is taken, and with which a container starts; 10m to 4 cores.
    pub slack: Cores,
    /// Steps that the means go back; 1 to 50.
    pub window: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { grow: 1.0, shrink: 0.8, slack: Cores::new(0.2), window: 3 }
    }
}

/// The part of its quota above the level that a container gives in a step, if another one is
/// throttled below it: half of it in 7 steps.
pub const EVEN: f64 = 0.1;
/// The part of the slack that a container keeps while others lack CPU.
pub const KEEP: f64 = 0.25;
/// Steps over which what a node wants of a limit over nodes is a mean.
pub const WANTED: usize = 5;
/// The least change of a quota that growing and shrinking make, as a part of it: each one is a
/// write to a file.
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
