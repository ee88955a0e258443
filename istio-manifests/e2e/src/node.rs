//! The node: its network and the programs that its pods find.

use crate::cluster::NODE;
use crate::inside::{SCRATCH, furnish, script};
use crate::tools::Tools;
use anyhow::Result;

/// The bridge that all pods are on.
pub const BRIDGE: &str = "pods";

/// Makes the node. What runs as a user of its own (Istio's agent, Envoy) lies where that user may
/// look.
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
