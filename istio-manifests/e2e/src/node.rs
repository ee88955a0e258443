//! The node: its network and the programs for its pods.

use crate::cluster::NODE;
use crate::inside::{SCRATCH, furnish, script};
use crate::tools::Tools;
use anyhow::Result;

/// The bridge that all pods are on.
pub const BRIDGE: &str = "pods";

/// Makes the node. Programs that run as their own user (Istio's agent, Envoy) are placed where that
/// user has access.
///
/// # Errors
/// A step failed.
pub fn make(tools: &Tools) -> Result<()> {
    furnish(BRIDGE, &format!("{NODE}/16"))?;
    let mut steps = format!("mkdir -p {SCRATCH}/bin\n");
    for (name, source) in [
        ("pilot-agent", tools.istio.join("pilot-agent")),
        ("envoy_bootstrap.json", tools.istio.join("envoy_bootstrap.json")),
        ("envoy", tools.envoy.clone()),
    ] {
        let source = source.canonicalize()?;
        steps += &format!("touch {SCRATCH}/bin/{name}\nmount --bind '{}' {SCRATCH}/bin/{name}\n", source.display());
    }
    script(&steps)
}
