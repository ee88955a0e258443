//! More requests than the backends admit.

use crate::mesh::{HUNG, Mesh};
use anyhow::{Result, ensure};
use bloc_mesh::load::{ErrorKind, Load, LoadPlan, Measurement, Outcome, Tally, run};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// So many clients send requests through the gateway without a pause.
pub async fn clients(mesh: &Mesh, clients: usize) -> Result<Measurement> {
    let plan = LoadPlan {
        target: SocketAddr::from((mesh.gateway()?.address, 8080)),
        path: "/".to_owned(),
        body: 0,
        load: Load::Closed { clients },
        keep_alive: true,
        timeout: Duration::from_secs(20),
        warm_up: Duration::from_secs(2),
        window: Duration::from_secs(5),
        outstanding_limit: 1_000,
        seed: 1,
    };
    let measured = run(&plan, Instant::now(), Arc::new(Tally::default())).await;
    ensure!(!measured.errors().contains_key(&ErrorKind::Timeout), "{HUNG}: {:?}", measured.errors());
    Ok(measured)
}

/// Five backends that admit two requests each: there is room for eight clients, but not always
/// where chance sends them; for forty there is none.
pub async fn backends_reject_excess_requests_and_senders_retry_elsewhere(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("shop", "routing: bloc, capacity: {estimator: static, limit: 2}, resetInterval: 100ms").await?;
    mesh.capacity_in_force(2).await?;
    let count = |measured: &Measurement, outcome: fn(&Outcome) -> bool| {
        measured.samples.iter().filter(|sample| outcome(&sample.outcome)).count()
    };
    let (ok, shed) = (|o: &Outcome| matches!(o, Outcome::Ok), |o: &Outcome| matches!(o, Outcome::Shed));
    let before = mesh.sum(&mesh.frontends(), "outbound", "rejections").await?;
    let measured = clients(mesh, 8).await?;
    let rejections = mesh.sum(&mesh.frontends(), "outbound", "rejections").await? - before;
    let (served, refused, all) = (count(&measured, ok), count(&measured, shed), measured.samples.len());
    println!("        8 clients: {all} requests, {served} served, {refused} refused, {rejections} attempts rejected");
    ensure!(rejections > 0, "no server rejected anything");
    ensure!(served + refused == all && served > 50, "errors: {:?}", measured.errors());
    ensure!(refused * 4 < rejections as usize, "most rejections were not retried with success");

    let measured = clients(mesh, 40).await?;
    let (served, refused, all) = (count(&measured, ok), count(&measured, shed), measured.samples.len());
    println!("        40 clients: {all} requests, {served} served, {refused} refused");
    ensure!(served + refused == all && served > 50 && refused > 0, "errors: {:?}", measured.errors());
    Ok(())
}
