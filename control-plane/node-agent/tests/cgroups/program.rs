//! The program itself at the kernel's own groups: it is told, killed, stopped and fooled.

use crate::sandbox::Sandbox;
use bloc_node_agent::cgroup::{Bandwidth, Group, Version};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take on a busy or emulated machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: u64 = 100_000;
/// Both containers have this, and their pods.
const OWN: u64 = 20_000;

/// The group of the first container.
pub const BUSY: &str = "burstable/podu0/c0";

const IDLE: &str = "burstable/podu1/c1";

pub const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    cpu: {limit: 400m, floor: 20m, slack: 50m}
";
const PODS: &str = "
- {namespace: shop, name: checkout-0, uid: u0, labels: {app: checkout}, containers: [{name: app, id: c0}]}
- {namespace: shop, name: checkout-1, uid: u1, labels: {app: checkout}, containers: [{name: app, id: c1}]}
";

/// Two pods, of which the first one may be busy, and the agent.
pub struct Stand {
    directory: TempDir,
    program: Option<Child>,
    pub sandbox: Sandbox,
    pub busy: Group,
    pub idle: Group,
    pub pods: [Group; 2],
    arguments: Vec<String>,
}

impl Stand {
    fn new() -> Self {
        let mut stand = Self::with(CONFIG);
        stand.sandbox.keep_busy(BUSY);
        stand
    }

    /// Without anything that runs yet.
    pub fn with(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut sandbox = Sandbox::new();
        sandbox.make("burstable");
        let pods = ["burstable/podu0", "burstable/podu1"].map(|path| sandbox.make(path));
        let [busy, idle] = [BUSY, IDLE].map(|path| sandbox.make(path));
        for group in pods.iter().chain([&busy, &idle]) {
            group.set(Bandwidth { quota: Some(OWN), period: PERIOD }).unwrap();
        }
        fs::write(directory.path().join("pods.yaml"), PODS).unwrap();
        let stand = Self { directory, program: None, sandbox, busy, idle, pods, arguments: Vec::new() };
        stand.configure(config);
        stand
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// As Kubernetes does: another file takes the place.
    pub fn configure(&self, yaml: &str) {
        fs::write(self.path("new.yaml"), yaml).unwrap();
        fs::rename(self.path("new.yaml"), self.path("node-agent.yaml")).unwrap();
    }

    pub fn command(&self, command: &str) -> Command {
        let (cgroups, cpuacct) = self.sandbox.folders();
        let mut program = Command::new(env!("CARGO_BIN_EXE_bloc-node-agent"));
        program.arg(command).arg("--cgroups").arg(cgroups).arg("--state").arg(self.path("state"));
        if let Some(cpuacct) = cpuacct {
            program.arg("--cpuacct").arg(cpuacct);
        }
        if let Some(memory) = self.sandbox.memory() {
            program.arg("--memory").arg(memory);
        }
        program
    }

    fn run(&self) -> Command {
        let mut program = self.command("run");
        program.arg("--config").arg(self.path("node-agent.yaml"));
        program.arg("--pods").arg(format!("file:{}", self.path("pods.yaml").display()));
        program.args(["--listen", "127.0.0.1:0", "--address-file"]).arg(self.path("address"));
        program.args(&self.arguments);
        program
    }

    /// More arguments of the program.
    pub fn arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    }

    pub fn start(&mut self) {
        let _ = fs::remove_file(self.path("address"));
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        self.program = Some(self.run().stderr(log).spawn().unwrap());
        self.until("it listens", |stand| stand.path("address").exists());
    }

    /// Starts it, and waits until the busy container has more than its own quota.
    fn start_and_grow(&mut self) {
        self.start();
        self.until("the busy container has grown", |stand| quota(&stand.busy) > OWN * 3 / 2);
        self.until("the idle one has shrunk", |stand| quota(&stand.idle) < OWN);
    }

    pub fn guardian(&self) -> i32 {
        i32::try_from(self.program.as_ref().unwrap().id()).unwrap()
    }

    /// The guardian's child.
    pub fn agent(&self) -> i32 {
        let guardian = self.guardian();
        let path = format!("/proc/{guardian}/task/{guardian}/children");
        let children = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Kills agent and guardian, so that neither sees the other one's end.
    pub fn kill_both(&mut self) {
        let agent = self.agent();
        send(self.guardian(), Signal::SIGSTOP);
        send(agent, Signal::SIGKILL);
        send(self.guardian(), Signal::SIGKILL);
        self.ended();
    }

    /// How the program has ended.
    pub fn ended(&mut self) -> ExitStatus {
        let mut program = self.program.take().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = program.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > PATIENCE {
                let _ = program.kill();
                panic!("it does not end; {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub fn until(&self, what: &str, happened: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !happened(self) {
            assert!(began.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}; {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The quotas of the containers and their pods, in microseconds.
    pub fn quotas(&self) -> [u64; 4] {
        [&self.busy, &self.idle, &self.pods[0], &self.pods[1]].map(quota)
    }

    /// The value of a metric, with its labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = get(&self.path("address"), "/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Some(mut program) = self.program.take() {
            // The agent ends with its guardian.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

fn quota(group: &Group) -> u64 {
    group.bandwidth().unwrap().quota.unwrap_or(u64::MAX)
}

fn get(address: &Path, path: &str) -> String {
    let address = fs::read_to_string(address).unwrap();
    let mut stream = TcpStream::connect(address.trim()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

pub fn send(process: i32, signal: Signal) {
    kill(Pid::from_raw(process), signal).unwrap_or_else(|error| panic!("{signal} {process}: {error}"));
}

/// No container has less than its own quota, and the busy one has kept what it got.
#[track_caller]
fn released(stand: &Stand, grown: u64) {
    let [busy, idle, pod, other] = stand.quotas();
    assert!(busy >= grown && pod >= busy, "{busy} of {grown}, {pod}; {}", stand.log());
    assert_eq!([idle, other], [OWN, OWN], "{}", stand.log());
}

#[test]
fn a_busy_container_gets_what_the_idle_one_leaves_and_gives_it_back_at_the_end() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let [busy, idle, pod, _] = stand.quotas();
    assert!(pod >= busy, "{pod} of the pod, {busy} of its container");
    assert!(busy + idle <= 2 * OWN, "{busy} and {idle}: more than both had themselves");
    let labels = r#"{app="shop/checkout",pod="checkout-0",container="app"}"#;
    stand.until("the metrics show it", |stand| {
        stand.metric(&format!("bloc_node_cpu_quota_cores{labels}")).is_some_and(|cores| cores > 0.2)
    });
    assert!(get(&stand.path("address"), "/healthz").ends_with("ok\n"));
    let grown = quota(&stand.busy);
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success(), "{}", stand.log());
    released(&stand, grown);
    stand.start_and_grow();
    send(stand.guardian(), Signal::SIGINT);
    assert!(stand.ended().success(), "{}", stand.log());
    assert!(stand.command("restore").status().unwrap().success());
    assert_eq!(stand.quotas(), [OWN; 4]);
}

#[test]
fn an_observer_changes_nothing() {
    let mut stand = Stand::new();
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.start();
    let labels = r#"{app="shop/checkout",pod="checkout-0",container="app"}"#;
    stand.until("it would give more", |stand| {
        stand.metric(&format!("bloc_node_cpu_quota_cores{labels}")).is_some_and(|cores| cores > 0.25)
    });
    assert_eq!(stand.quotas(), [OWN; 4]);
    assert_eq!(stand.metric("bloc_node_writes_total"), Some(0.0));
    assert_eq!(stand.metric("bloc_node_enforcing"), Some(0.0));
}

#[test]
fn if_the_agent_dies_its_guardian_releases() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let grown = quota(&stand.busy);
    send(stand.agent(), Signal::SIGKILL);
    assert_eq!(stand.ended().code(), Some(1));
    released(&stand, grown);
}

#[test]
fn if_the_agent_hangs_its_guardian_releases() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let agent = stand.agent();
    send(agent, Signal::SIGSTOP);
    let grown = quota(&stand.busy);
    assert_eq!(stand.ended().code(), Some(1));
    released(&stand, grown);
    assert!(!Path::new(&format!("/proc/{agent}")).exists(), "the agent is still there");
}

#[test]
fn if_the_guardian_dies_the_agent_releases() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let (grown, agent) = (quota(&stand.busy), stand.agent());
    send(stand.guardian(), Signal::SIGKILL);
    assert!(!stand.ended().success());
    stand.until("the agent has ended", |_| !Path::new(&format!("/proc/{agent}")).exists());
    released(&stand, grown);
}

#[test]
fn if_both_die_quotas_stay_and_the_next_start_knows_the_originals() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    stand.kill_both();
    let [busy, idle, ..] = stand.quotas();
    assert!(busy > OWN && idle < OWN, "{busy} {idle}: the busy one has what it used");
    stand.start_and_grow();
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.until("the originals are back", |stand| stand.quotas() == [OWN; 4]);
}

#[test]
fn a_quota_that_somebody_else_writes_stays() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let theirs = 17_000;
    stand.idle.set(Bandwidth { quota: Some(theirs), period: PERIOD }).unwrap();
    let labels = r#"{app="shop/checkout",pod="checkout-1",container="app"}"#;
    stand.until("it is noticed", |stand| stand.metric(&format!("bloc_node_foreign_writes_total{labels}")) == Some(1.0));
    assert_eq!(quota(&stand.idle), theirs);
    assert_eq!(stand.metric(&format!("bloc_node_cpu_managed{labels}")), Some(0.0));
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success());
    assert_eq!(quota(&stand.idle), theirs);
}

/// The kernel refuses quotas below a burst.
#[test]
fn a_container_that_gets_a_burst_leaves_and_the_other_one_has_its_own() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let file = match stand.sandbox.version() {
        Version::V1 => "cpu.cfs_burst_us",
        Version::V2 => "cpu.max.burst",
    };
    let burst = OWN * 5 / 4;
    fs::write(stand.busy.path().join(file), burst.to_string()).unwrap();
    stand.sandbox.keep_busy(IDLE);
    stand.until("it is noticed", |stand| {
        stand.metric(r#"bloc_node_errors_total{kind="burst"}"#).is_some_and(|count| count >= 1.0)
    });
    stand.until("the other one has its own", |stand| quota(&stand.idle) >= OWN * 19 / 20);
    assert!(quota(&stand.idle) <= OWN, "{:?}", stand.quotas());
    assert_eq!(quota(&stand.busy), burst, "as little as the kernel allows");
    // One write may be refused: the burst can come between the agent's look and its write.
    let refused = |stand: &Stand| stand.metric(r#"bloc_node_errors_total{kind="write"}"#).unwrap_or(0.0);
    let before = refused(&stand);
    assert!(before <= 1.0, "{}", stand.log());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(refused(&stand), before, "{}", stand.log());
    fs::write(stand.busy.path().join(file), "0").unwrap();
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success());
    assert!(stand.command("restore").status().unwrap().success());
    assert_eq!(stand.quotas(), [OWN; 4], "{}", stand.log());
}

#[test]
fn a_second_agent_with_the_same_state_is_refused() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    let second = stand.run().stderr(Stdio::piped()).output().unwrap();
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(error.contains("another agent uses this state directory"), "{error}");
    let restore = stand.command("restore").stderr(Stdio::piped()).output().unwrap();
    assert_eq!(restore.status.code(), Some(1));
    assert!(quota(&stand.idle) < OWN, "nothing was put back");
}

#[test]
fn a_configuration_that_is_refused_leaves_the_last_one_in_force() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    stand.configure(&CONFIG.replace("400m", "5m"));
    stand.until("it is refused", |stand| stand.metric("bloc_node_config_ok") == Some(0.0));
    let refusal = "apps.shop/checkout.cpu.limit: 5m is not allowed; allowed: 10m to 1024000m";
    assert!(stand.log().contains(refusal), "{}", stand.log());
    assert!(quota(&stand.idle) < OWN);
    stand.configure(CONFIG);
    stand.until("it is accepted", |stand| stand.metric("bloc_node_config_ok") == Some(1.0));
    // Each one is logged, however many were refused before.
    for limit in ["6m", "7m", "8m", "9m"] {
        stand.configure(&CONFIG.replace("400m", limit));
        let refusal = format!("apps.shop/checkout.cpu.limit: {limit} is not allowed");
        stand.until(&refusal, |stand| stand.log().contains(&refusal));
    }
}

#[test]
fn with_a_configuration_that_was_never_good_nothing_stays_changed() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    stand.kill_both();
    let grown = quota(&stand.busy);
    assert!(quota(&stand.idle) < OWN);
    stand.configure("mode: enforced");
    stand.start();
    stand.until("the idle one has its own quota", |stand| quota(&stand.idle) == OWN);
    released(&stand, grown);
}

#[test]
fn a_container_that_is_gone_ends_nothing_and_its_room_is_used() {
    let mut stand = Stand::new();
    stand.start_and_grow();
    stand.sandbox.remove_idle(IDLE);
    let labels = r#"{app="shop/checkout",pod="checkout-1",container="app"}"#;
    let name = format!("bloc_node_cpu_managed{labels}");
    stand.until("it is forgotten", |stand| stand.metric(&name).is_none());
    // The pod is as it was, for another container.
    stand.until("its pod is as it was", |stand| quota(&stand.pods[1]) == OWN);
    assert!(stand.metric("bloc_node_steps_total").is_some_and(|steps| steps > 0.0));
}

#[test]
fn says_what_is_wrong_with_arguments_and_files() {
    let stand = Stand::new();
    let program = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_bloc-node-agent")).args(arguments).output().unwrap();
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), texts)
    };
    let file = stand.path("node-agent.yaml");
    let file = file.to_str().unwrap();
    assert_eq!(program(&["check", file]).1[0], "ok: 1 applications\n");
    stand.configure("mode: 1");
    let (code, [_, error]) = program(&["check", file]);
    assert_eq!(code, Some(1));
    assert!(error.contains("node-agent.yaml: mode: "), "{error}");
    let (code, [_, error]) = program(&["restore", "--cgroups", "/nowhere", "--state", "/nowhere"]);
    assert_eq!(code, Some(1));
    assert!(error.starts_with("error: /nowhere"), "{error}");
    if stand.sandbox.version() == Version::V1 {
        let cgroups = stand.sandbox.folders().0.to_str().unwrap();
        let state = stand.path("state");
        let (_, [_, error]) = program(&["restore", "--cgroups", cgroups, "--state", state.to_str().unwrap()]);
        assert!(error.contains("--cpuacct"), "{error}");
    }
}
