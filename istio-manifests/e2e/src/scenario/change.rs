//! Changes of parameters under load.

use crate::mesh::Mesh;
use anyhow::{Result, ensure};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// An edit takes effect from `kubectl apply` to the last backend's filter.
pub async fn an_edit_of_the_config_map_takes_effect(mesh: &Mesh) -> Result<()> {
    for capacity in [7, 9] {
        mesh.set_parameters("shop", &format!("capacity: {{estimator: static, limit: {capacity}}}")).await?;
        let began = Instant::now();
        mesh.capacity_in_force(capacity).await?;
        println!("        in force in every backend after {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// A value out of its range: the previous parameters stay in force, and the ConfigMap's events
/// state the reason.
pub async fn a_refused_edit_of_the_config_map_changes_nothing(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}, retries: 11").await?;
    mesh.until("an event that names the value", async || {
        let events = mesh.api.kubectl(["-n", "shop", "get", "events", "-o", "yaml"]).await?;
        Ok(events.contains("retries") && events.contains("11"))
    })
    .await?;
    // Longer than a change takes to arrive.
    sleep(Duration::from_secs(3)).await;
    mesh.capacity_in_force(9).await?;
    ensure!(mesh.ask("/").await?.status == 200, "no answer");
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}").await
}
