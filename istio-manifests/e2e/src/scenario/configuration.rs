//! The filters' own configuration, in an EnvoyFilter, changes under load.

use crate::mesh::{HUNG, Mesh};
use anyhow::{Context, Result, ensure};
use bloc_mesh::load::{Client, ErrorKind, Outcome};
use futures_util::future::try_join_all;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The shipped plugin configurations of bloc.inbound and bloc.outbound, in this order.
const SHIPPED: &str =
    r#"{"controlPlane": {"cluster": "outbound|7080||bloc-control-plane.bloc-system.svc.cluster.local"}}"#;
const BACKEND: &str = "backend.shop.svc.cluster.local";
/// At first, and again after the reversion.
const ROOMY: i64 = 40;
/// After the edit: less than the load needs, but more than a backend works on, so that requests are
/// still held.
const TIGHT: i64 = 14;
/// From the control plane: after the edit was reverted, and after the filters were removed and
/// added again.
const FROM_THE_CONTROL_PLANE: [i64; 2] = [30, 35];
/// The concurrency exceeds the two requests that a backend works on at once, so that uploads do not
/// slow a backend down.
const OTHERS: &str = "concurrency: 12, hold: true, maxQueueWait: 2s, retries: 3, resetInterval: 100ms";
/// Two seconds in the queue at each of four attempts, and extra time for the machine.
const BOUND: Duration = Duration::from_secs(10);
/// Longer than [`BOUND`]: a request that takes it hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// 200 ms each: ten places finish 50 of them in a second.
const PATH: &str = "/cost/10";
/// More than the backends' filters admit: some requests are held at any moment.
const CLIENTS: usize = 70;
/// A client's pause after a rejection, so that rejections do not take up the whole machine.
const PAUSE: Duration = Duration::from_millis(200);
/// Uploads from each frontend, so that nearly every worker of a backend has one.
const UPLOADS: usize = 3;
/// More than everything takes, including waits that went wrong.
const MOST: Duration = Duration::from_secs(600);
/// As long as a fault after a rollback takes to appear, with held requests.
const SETTLE: Duration = Duration::from_secs(5);
/// The share of requests that may be cut around the end of a drain: guide.md has 11 of 699 without
/// our filters. Of about 600 each, six drains of listeners with the filters cut 6 and six of
/// listeners without them 2, too few to tell the two apart in one run.
const CUT: f64 = 0.02;
/// A request sent this long before a change may meet either state.
const MARGIN: Duration = Duration::from_secs(1);

/// A request: its beginning and end, from the start of the load, and its outcome.
struct Seen {
    began: Duration,
    ended: Duration,
    outcome: Outcome,
}

/// The times of the steps, from the start of the load.
struct Steps {
    /// Before the edit was applied; when it was in force in every backend.
    edited: [Duration; 2],
    /// The same for its reversion.
    reverted: [Duration; 2],
    /// Before the filters were removed; when all proxies had drained the listeners with them. The
    /// filters are added again right after the second. [`MOST`] until they are removed.
    removed: [Duration; 2],
    /// Attempts that backends rejected while the edit was in force, and within some seconds after
    /// it was reverted.
    rejected: [i64; 2],
}

/// The configuration is edited, and reverted within seconds, while earlier requests still keep the
/// old plugins alive. Then the filters are removed, which replaces all listeners, and added again.
/// The last plugins of the edit end with their last request, the replaced listeners at the end of
/// their drain (5 s in this mesh).
pub async fn no_request_hangs_while_the_filters_are_edited_and_removed(mesh: &Mesh) -> Result<()> {
    // The control plane's parameters for a service take precedence over those in the plugin
    // configuration.
    mesh.set_services("shop", &[("nobody", "{}")]).await?;
    configure(mesh, ROOMY).await?;
    mesh.capacity_in_force(ROOMY).await?;
    mesh.settled().await?;

    let (client, end) = (client(mesh)?, Arc::new(AtomicBool::new(false)));
    let start = Instant::now();
    let steps = async {
        let steps = steps(mesh, start).await;
        // Even if a step failed.
        end.store(true, Ordering::Relaxed);
        steps
    };
    let (seen, steps) = tokio::join!(load(client, start, Arc::clone(&end)), steps);
    let judged = steps.as_ref().map_or(Ok(()), |steps| judge(&seen, steps));
    // Reported first: a failed step may only be a consequence of requests that hang.
    none_hangs(&seen)?;
    steps?;
    judged?;
    // The state that the next chapter needs.
    mesh.apply_folder("module").await?;
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}").await?;
    mesh.capacity_in_force(9).await
}

async fn steps(mesh: &Mesh, start: Instant) -> Result<Steps> {
    let now = || start.elapsed();
    let file = mesh.logs.join("uploads-end");
    let (uploads, steps) = tokio::join!(uploads(mesh, &file), async {
        sleep(SETTLE).await;
        let steps = edit(mesh, start).await;
        // Even if it failed, so that the uploads end.
        std::fs::write(&file, "")?;
        steps
    });
    let mut steps = steps?;
    let statuses = uploads?;
    ensure!(statuses.iter().all(|status| *status == 200), "uploads were answered {statuses:?}");
    sleep(2 * MARGIN).await;
    let before = rejected(mesh).await?;
    sleep(SETTLE).await;
    steps.rejected[1] = rejected(mesh).await? - before;
    let [first, last] = FROM_THE_CONTROL_PLANE;
    mesh.set_parameters("shop", &format!("capacity: {{estimator: static, limit: {first}}}, {OTHERS}")).await?;
    mesh.capacity_in_force(first).await?;

    steps.removed[0] = now();
    mesh.delete_folder("sidecars").await?;
    mesh.until("sidecars without the filters", async || has_filters(mesh).await.map(|has| !has)).await?;
    mesh.drained().await?;
    steps.removed[1] = now();
    mesh.apply_folder("sidecars").await?;
    mesh.until("sidecars with the filters", async || has_filters(mesh).await).await?;
    mesh.drained().await?;
    mesh.set_parameters("shop", &format!("capacity: {{estimator: static, limit: {last}}}, {OTHERS}")).await?;
    mesh.capacity_in_force(last).await?;
    Ok(steps)
}

/// Edits the configuration and reverts the edit.
async fn edit(mesh: &Mesh, start: Instant) -> Result<Steps> {
    let edited = start.elapsed();
    configure(mesh, TIGHT).await?;
    mesh.capacity_in_force(TIGHT).await?;
    let in_force = start.elapsed();
    // Wait, so that some are rejected. The counters lag.
    let before = rejected(mesh).await?;
    sleep(4 * MARGIN).await;
    let meanwhile = rejected(mesh).await? - before;
    let reverted = start.elapsed();
    configure(mesh, ROOMY).await?;
    mesh.capacity_in_force(ROOMY).await?;
    Ok(Steps {
        edited: [edited, in_force],
        reverted: [reverted, start.elapsed()],
        removed: [MOST; 2],
        rejected: [meanwhile, 0],
    })
}

/// Attempts that the backends have rejected because they were full.
async fn rejected(mesh: &Mesh) -> Result<i64> {
    mesh.sum(&mesh.backends(), "inbound", "rejected_capacity").await
}

/// Uploads from each frontend to the backends, until the file exists; returns the statuses of the
/// answers.
async fn uploads(mesh: &Mesh, until: &Path) -> Result<Vec<u16>> {
    let program = std::env::current_exe()?.display().to_string();
    let (to, until) = (format!("{BACKEND}:8080"), until.display().to_string());
    let arguments = [&program, "upload", &to, &until];
    let frontends = mesh.frontends();
    let each = frontends.iter().flat_map(|pod| std::iter::repeat_n(pod, UPLOADS));
    let all = try_join_all(each.map(|pod| mesh.exec(pod, &arguments))).await?;
    all.iter().map(|text| text.trim().parse().context("no status")).collect()
}

/// Applies the EnvoyFilter of `module`, with these parameters in both plugin configurations.
async fn configure(mesh: &Mesh, capacity: i64) -> Result<()> {
    let folder = mesh.tools.manifests.join("module");
    let shipped = mesh.api.kubectl(["kustomize".as_ref(), folder.as_os_str()]).await?;
    ensure!(shipped.matches(SHIPPED).count() == 2, "the plugin configurations are others: {shipped}");
    let services = format!(r#""services": {{"{BACKEND}": {}}}"#, json(capacity));
    let edited = shipped.replace(SHIPPED, &SHIPPED.replacen('{', &format!("{{{services}, "), 1));
    let file = mesh.logs.join("module.yaml");
    std::fs::write(&file, edited)?;
    mesh.api.kubectl(["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await.map(drop)
}

/// [`OTHERS`] and a capacity, as JSON.
fn json(capacity: i64) -> String {
    format!(
        r#"{{"capacity": {{"estimator": "static", "limit": {capacity}}}, "concurrency": 12, "hold": true, "maxQueueWait": "2s", "retries": 3, "resetInterval": "100ms"}}"#
    )
}

/// Whether every workload of the shop has the filters; an error if only some have.
async fn has_filters(mesh: &Mesh) -> Result<bool> {
    let mut with = 0;
    let pods = [mesh.frontends(), mesh.backends()].concat();
    for pod in &pods {
        let listeners = mesh.admin(pod, "config_dump?resource=dynamic_listeners").await?;
        with += usize::from(listeners.contains("bloc.inbound"));
    }
    ensure!(with == 0 || with == pods.len(), "{with} of {} have the filters", pods.len());
    Ok(with > 0)
}

fn client(mesh: &Mesh) -> Result<Client> {
    Ok(Client::new(SocketAddr::from((mesh.gateway()?.address, 8080)), PATH, false, PATIENCE))
}

/// Each client sends its next request after the answer to the last one, until `end`.
async fn load(client: Client, start: Instant, end: Arc<AtomicBool>) -> Vec<Seen> {
    let (client, mut clients) = (Arc::new(client), JoinSet::new());
    for _ in 0..CLIENTS {
        let (client, end) = (Arc::clone(&client), Arc::clone(&end));
        clients.spawn(async move {
            let mut seen = Vec::new();
            while !end.load(Ordering::Relaxed) && start.elapsed() < MOST {
                let began = start.elapsed();
                let outcome = client.request().await;
                seen.push(Seen { began, ended: start.elapsed(), outcome });
                if outcome != Outcome::Ok {
                    sleep(PAUSE).await;
                }
            }
            seen
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

/// Checks that each request has its answer, in time.
fn none_hangs(seen: &[Seen]) -> Result<()> {
    let hung: Vec<f64> = seen
        .iter()
        .filter(|one| one.outcome == Outcome::Error(ErrorKind::Timeout) || one.ended - one.began > BOUND)
        .map(|one| one.began.as_secs_f64().round())
        .collect();
    ensure!(hung.is_empty(), "{HUNG}: {} of {}, begun at these seconds: {hung:?}", hung.len(), seen.len());
    Ok(())
}

/// Checks that the edit and its reversion take effect, and that nothing else is lost. When
/// listeners are replaced, Envoy closes open connections at the end of their drain, with the
/// filters or without ([`CUT`]): listeners with them drain when the filters are removed, those
/// without when they are back.
fn judge(seen: &[Seen], steps: &Steps) -> Result<()> {
    let Steps { edited: [edited, tight], reverted: [reverted, roomy], rejected: [meanwhile, afterwards], removed } =
        *steps;
    println!(
        "        edited after {:.1} s, in force {:.1} s later; reverted {:.1} s after the edit, in force {:.1} s later",
        edited.as_secs_f64(),
        (tight - edited).as_secs_f64(),
        (reverted - edited).as_secs_f64(),
        (roomy - reverted).as_secs_f64()
    );
    let refused = |from: Duration, to: Duration| {
        let inside = |one: &&Seen| one.began >= from && one.ended <= to && one.outcome == Outcome::Shed;
        seen.iter().filter(inside).count()
    };
    let [before, after] = [(Duration::ZERO, edited), (roomy + MARGIN, MOST)].map(|(from, to)| refused(from, to));
    let [removed, back] = removed;
    let (mut errors, mut cut) = (BTreeMap::<ErrorKind, Vec<f64>>::new(), [0, 0]);
    for one in seen {
        match one.outcome {
            Outcome::Error(ErrorKind::Status(502 | 503)) if one.ended >= back => cut[1] += 1,
            Outcome::Error(ErrorKind::Status(502 | 503)) if one.ended >= removed => cut[0] += 1,
            Outcome::Error(kind) => errors.entry(kind).or_default().push(one.ended.as_secs_f64().round()),
            Outcome::Ok | Outcome::Shed => {}
        }
    }
    let [with, without] = cut;
    let longest = seen.iter().map(|one| one.ended - one.began).max().unwrap_or_default();
    println!(
        "        {} requests, the longest {:.1} s; attempts rejected: {meanwhile} meanwhile, {afterwards} after",
        seen.len(),
        longest.as_secs_f64()
    );
    println!("        {with} cut when listeners with the filters had drained, {without} when those without had");
    ensure!(meanwhile > 0, "the edit takes no effect");
    ensure!(afterwards == 0, "{afterwards} attempts were rejected after the edit was reverted");
    ensure!(before + after == 0, "refused with room for all: {before} before the edit, {after} after its reversion");
    ensure!(errors.is_empty(), "errors, at these seconds: {errors:?}");
    let all = seen.iter().filter(|one| one.ended >= removed && one.ended < back).count();
    ensure!(with as f64 <= CUT * all as f64, "{with} of {all} were cut with the filters, {without} without them");
    Ok(())
}
