//! What is tested, in the order in which a user comes across it: each scenario takes the mesh as the one before left it.

mod attach;
mod change;
mod failure;
mod gateway;
mod leave;
mod overload;
mod remote;
mod routes;
mod shipped;
mod strangers;

use crate::mesh::Mesh;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::ExitCode;
use tokio::time::Instant;

/// Runs a scenario and says how it went.
macro_rules! scenario {
    ($mesh:expr, $scenario:path) => {{
        let began = Instant::now();
        let name = stringify!($scenario).replace("::", ": ").replace('_', " ");
        let outcome = match $scenario(&$mesh).await {
            // What it has changed is not for the next one to suffer from.
            Ok(()) => $mesh.drained().await,
            failed => failed,
        };
        match outcome {
            Ok(()) => println!("ok      {name} ({:.1} s)", began.elapsed().as_secs_f64()),
            Err(error) => {
                println!("FAILED  {name}: {error:#}");
                return Ok(ExitCode::FAILURE);
            }
        }
        $mesh.check()?;
    }};
}

/// Brings up the mesh and runs the scenarios.
///
/// # Errors
/// The mesh does not come up, or a part of it ends.
pub async fn run(logs: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    let mut mesh = Mesh::start(logs).await?;
    println!("mesh up after {:.0} s; logs are in {}", began.elapsed().as_secs_f64(), logs.display());
    scenario!(mesh, attach::the_shop_answers_without_bloc);
    scenario!(mesh, shipped::istioctl_and_the_api_server_accept_every_manifest);
    scenario!(mesh, attach::the_manifests_as_shipped_attach_it);
    scenario!(mesh, shipped::istioctl_finds_nothing_in_the_cluster);
    scenario!(mesh, attach::only_mutual_tls_is_spoken);
    scenario!(mesh, attach::the_mesh_may_not_read_what_the_control_plane_knows);
    scenario!(mesh, attach::nothing_internal_is_seen_by_applications_or_clients);
    scenario!(mesh, overload::what_exceeds_the_capacity_is_rejected_and_retried_elsewhere);
    scenario!(mesh, change::an_edit_of_the_config_map_takes_effect);
    scenario!(mesh, change::an_edit_that_is_refused_changes_nothing);
    scenario!(mesh, strangers::workloads_with_and_without_the_label_talk_to_each_other);
    scenario!(mesh, strangers::with_strip_pods_without_the_label_are_spared_the_bid);
    scenario!(mesh, strangers::with_strip_nobody_outside_is_taken_for_a_caller);
    scenario!(mesh, routes::redirects_and_direct_responses_stay_what_they_are);
    scenario!(mesh, gateway::a_gateway_chooses_among_the_frontends);
    scenario!(mesh, gateway::nothing_internal_passes_the_gateway);
    scenario!(mesh, gateway::a_redirect_with_the_name_of_the_patched_routes_stays_one);
    scenario!(mesh, gateway::a_gateway_alone_works_before_plain_sidecars);
    scenario!(mesh, gateway::the_gateway_opts_out);
    scenario!(mesh, nobody_refused_a_configuration);
    scenario!(mesh, failure::without_the_control_plane_everything_goes_on);
    scenario!(mesh, failure::a_pod_whose_module_is_missing_serves);
    scenario!(mesh, failure::a_pod_whose_module_is_garbage_serves);
    scenario!(mesh, remote::the_module_can_be_downloaded);
    scenario!(mesh, remote::a_pod_whose_download_is_not_the_module_serves);
    scenario!(mesh, remote::a_pod_whose_download_fails_serves);
    scenario!(mesh, leave::a_workload_opts_out);
    scenario!(mesh, leave::uninstall_leaves_nothing);
    println!("all scenarios passed after {:.0} s", began.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

/// No Envoy has refused what istiod sent it.
async fn nobody_refused_a_configuration(mesh: &Mesh) -> Result<()> {
    let refused = mesh.refused_configurations()?;
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    Ok(())
}

/// Brings up the shop with BLOC and waits.
///
/// # Errors
/// The mesh does not come up.
pub async fn up(logs: &Path) -> Result<ExitCode> {
    let mesh = Mesh::start(logs).await?;
    attach::the_shop_answers_without_bloc(&mesh).await?;
    attach::the_manifests_as_shipped_attach_it(&mesh).await?;
    println!("gateway: http://{}:8080, in the namespaces of process {}", mesh.gateway()?.address, std::process::id());
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}
