//! A small mesh of real Envoys, end to end. It needs Envoy (`ENVOY`, or what
//! `loadtest/install-envoy.sh` installed) and takes some seconds.

use bloc_mesh::policy::Policy;
use bloc_mesh::{Mesh, MeshSpec, Tools};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");

fn tools() -> Tools {
    match Tools::beside(Path::new(LAB)) {
        Ok(tools) => tools,
        Err(missing) => panic!("{missing}"),
    }
}

/// The processes whose command line mentions `text`.
fn mentioning(text: &Path) -> Vec<String> {
    let text = text.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

fn runs(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// Waits until `done`, for at most ten seconds.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spec() -> MeshSpec {
    MeshSpec {
        backends: 2,
        control_plane: false,
        ..MeshSpec::fleet(Policy::LeastRequest, 2, "fixed:20ms".parse().unwrap())
    }
}

#[test]
fn run_measures_two_servers_and_leaves_no_process() {
    let target = tempfile::tempdir().unwrap();
    let json = target.path().join("row.json");
    let mut command = Command::new(LAB);
    command.args(["run", "--policy", "least_request", "--frontends", "2", "--backends", "2", "--load", "closed:8"]);
    command.args(["--service-time", "fixed:20ms", "--warm-up", "500ms", "--duration", "2s", "--json"]).arg(&json);
    // Logs and bootstraps go below this, so that the children differ from those of other
    // tests.
    let output = command.env("CARGO_TARGET_DIR", target.path()).env("ENVOY", &tools().envoy).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let rows: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let number = |name: &str| rows[0][name].as_f64().unwrap();
    // No answer arrives before its service time. How many arrive depends on the machine; a test in
    // virtual time shows that a busy server keeps its rate (backend/places.rs).
    let throughput = number("throughput_rps");
    // 50 a second each; after a stall before the window, more of them fall into it.
    assert!(throughput > 0.0 && throughput < 150.0, "{rows:?}");
    assert!(20.0 <= number("p10_ms") && number("p10_ms") <= number("p50_ms"), "{rows:?}");
    assert!(number("p50_ms") <= number("p99_ms"), "{rows:?}");
    assert_eq!((number("shed"), number("errors"), number("attempts_per_request")), (0.0, 0.0, 1.0), "{rows:?}");
    assert_eq!(mentioning(target.path()), [""; 0]);
}

#[tokio::test]
async fn a_dropped_mesh_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let bar = indicatif::ProgressBar::hidden();
    let mut mesh = Mesh::start(&spec(), &tools(), directory.path(), &bar).await.unwrap();
    let ids = mesh.process_ids();
    assert_eq!(ids.len(), 2 + 2 + 2 + 1);
    assert!(ids.iter().all(|id| runs(*id)));
    drop(mesh);
    assert!(!ids.iter().any(|id| runs(*id)));
}

#[tokio::test]
async fn no_op_filters_run_in_the_same_positions_as_ours() {
    let directory = tempfile::tempdir().unwrap();
    let bar = indicatif::ProgressBar::hidden();
    let spec = MeshSpec { policy: Policy::NoopFilters, frontends: 1, backends: 1, ..spec() };
    let mesh = Mesh::start(&spec, &tools(), directory.path(), &bar).await.unwrap();
    let (status, body) = bloc_mesh::http::get(mesh.gateway(), "/", Duration::from_secs(10)).await.unwrap();
    assert_eq!((status.as_u16(), &*body), (200, b"served by backend-0\n".as_slice()));
    // A frontend has one downstream and one upstream filter, a sidecar one, the gateway none.
    for (name, filters) in [("frontend-0", 2), ("sidecar-0", 1), ("gateway", 0)] {
        let bootstrap = std::fs::read_to_string(directory.path().join(format!("{name}.json"))).unwrap();
        assert_eq!(bootstrap.matches(r#""root_id": "noop""#).count(), filters, "{name}");
        let admin = std::fs::read_to_string(directory.path().join(format!("{name}.admin"))).unwrap();
        let made = bloc_mesh::envoy::counters(admin.trim().parse().unwrap(), "v8.created").await.unwrap();
        assert_eq!(made.values().sum::<u64>() > 0, filters > 0, "{name}: {made:?}");
    }
    mesh.end().await;
}

#[tokio::test]
async fn a_spare_backend_gets_requests_once_it_has_joined() {
    let directory = tempfile::tempdir().unwrap();
    let bar = indicatif::ProgressBar::hidden();
    let spec = MeshSpec { backends: 1, spare: 1, frontends: 1, ..spec() };
    let mesh = Mesh::start(&spec, &tools(), directory.path(), &bar).await.unwrap();
    let names = async || {
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let (_, body) = bloc_mesh::http::get(mesh.gateway(), "/", Duration::from_secs(10)).await.unwrap();
            names.insert(String::from_utf8(body.to_vec()).unwrap());
        }
        names.into_iter().collect::<String>()
    };
    assert_eq!(names().await, "served by backend-0\n");
    mesh.join_spare().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while names().await != "served by backend-0\nserved by backend-1\n" {
        assert!(Instant::now() < deadline, "no request reached the newcomer within 10 s");
    }
    mesh.end().await;
}

#[test]
fn the_mesh_ends_with_the_lab_on_any_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let target = tempfile::tempdir().unwrap();
        let mut command = Command::new(LAB);
        command.args(["up", "--policy", "random", "--frontends", "1", "--backends", "1"]).stdout(Stdio::piped());
        let mut lab = command.env("CARGO_TARGET_DIR", target.path()).env("ENVOY", &tools().envoy).spawn().unwrap();
        eventually("the mesh stands", || target.path().join("lab/mesh.json").exists());
        assert!(mentioning(target.path()).len() >= 3);
        kill(Pid::from_raw(lab.id().try_into().unwrap()), signal).unwrap();
        lab.wait().unwrap();
        eventually("the mesh is gone", || mentioning(target.path()).is_empty());
    }
}

#[test]
fn a_bad_argument_is_refused_with_option_value_and_range() {
    for (option, value, range) in [
        ("--frontends", "0", "1 to 200"),
        ("--load", "closed:0", "1 to 10000 clients"),
        ("--service-time", "fixed:0ms", "1us to 1h"),
        ("--capacity", "0", "static:LIMIT with 1 to 1000000"),
        ("--reset-interval", "2h", "1ms to 1h"),
        ("--retries", "11", "0 to 10"),
        ("--duration", "1ms", "100ms to 1day"),
    ] {
        let output = Command::new(LAB).args(["run", option, value]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(option) && said.contains(&format!("'{value}'")) && said.contains(range), "{said}");
    }
}
