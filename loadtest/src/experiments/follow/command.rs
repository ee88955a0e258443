//! `bloc-lab follow`.

use super::case::FollowCase;
use crate::experiments::quota::command::{Load, Options};
use crate::experiments::quota::name::Name;
use clap::Args;

/// Halve the CPU quota of a server under overload, with a sidecar that follows and one that does
/// not, and measure how soon a sidecar follows: that part of `quota` alone (some 15 minutes). Needs
/// root and cgroups.
///
/// Fails if a claim is missed or was not measured.
#[derive(Debug, Args)]
pub struct Follow {
    #[command(flatten)]
    options: Options,
}

impl Follow {
    /// Measures, prints, writes, and fails after that if a claim is not kept.
    pub async fn run(self) -> anyhow::Result<()> {
        self.options.measure("follow", Load::default(), FollowCase::ALL.map(Name::Follow).into()).await
    }
}
