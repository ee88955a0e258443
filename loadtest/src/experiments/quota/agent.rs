//! The node agent as a process, which finds its containers in files.

use crate::experiments::cost::accounting::cpu_time;
use anyhow::Context;
use bloc_mesh::cgroups::Containers;
use bloc_mesh::process::{Process, Program};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const START: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "lab";
/// How often, and how many times, it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(100);
const STOP_LOOKS: u32 = 150;

/// A pod with one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The application that it belongs to.
    pub app: String,
    /// Its uid, which is its name too.
    pub uid: String,
    /// The id of its container.
    pub id: String,
}

impl Pod {
    /// The `n`th pod of an application.
    pub fn new(app: &str, n: usize) -> Self {
        // As a container runtime writes them.
        Self { app: app.to_owned(), uid: format!("{app}-{n}"), id: format!("{:064x}", n + 1) }
    }
}

/// What the agent knows of each application.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// What all containers may have together, in cores.
    pub limit: f64,
    /// What each keeps at least.
    pub floor: f64,
    /// Further parameters, as in YAML: `slack: 100m, window: 5`.
    pub more: &'a str,
}

/// What the agent knows of each application about memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRule<'a> {
    /// What all containers may have together, in bytes.
    pub limit: u64,
    /// What each keeps at least.
    pub requests: u64,
    /// Further parameters, as in YAML: `margin: 50Mi, step: 16Mi`.
    pub more: &'a str,
}

/// What the agent knows of each application about response times.
#[derive(Clone, Copy, Debug)]
pub struct QosRule<'a> {
    /// The mean that is to be kept.
    pub target: Duration,
    /// What each container requests, in cores.
    pub requests: f64,
    /// Further parameters, as in YAML: `threshold: 1.2, step: 10`.
    pub more: &'a str,
}

/// The files that tell an agent what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    configuration: String,
    pods: String,
    control_plane: Option<SocketAddr>,
    node: Option<String>,
}

impl Files {
    fn new(configuration: String, pods: String) -> Self {
        Self { configuration, pods, control_plane: None, node: None }
    }

    /// With the same rule about CPU for each application.
    pub fn cpu(pods: &[Pod], rule: Rule<'_>) -> Self {
        let (limit, floor) = (milli(rule.limit), milli(rule.floor));
        let resource = format!("cpu: {{limit: {limit}, floor: {floor}{}}}", more(rule.more));
        let (configuration, pods) = (configuration(pods, &resource), listed(pods, &format!("requests: {floor}")));
        Self::new(configuration, pods)
    }

    /// With the same rule about memory.
    pub fn memory(pods: &[Pod], rule: MemoryRule<'_>) -> Self {
        let resource = format!("memory: {{limit: {}{}}}", rule.limit, more(rule.more));
        Self::new(configuration(pods, &resource), listed(pods, &format!("memory: {}", rule.requests)))
    }

    /// With the same rule about response times. The neighbour is on the same node, with such a
    /// request, and belongs to no application that the agent knows.
    pub fn qos(pods: &[Pod], neighbour: &Pod, requests: f64, rule: QosRule<'_>) -> Self {
        let resource = format!("qos: {{target: {}ms{}}}", rule.target.as_millis(), more(rule.more));
        let keeps = |cores| format!("requests: {}", milli(cores));
        let others = listed(std::slice::from_ref(neighbour), &keeps(requests));
        Self::new(configuration(pods, &resource), listed(pods, &keeps(rule.requests)) + &others)
    }

    /// The agent also tells this control plane what quotas pods have.
    #[must_use]
    pub fn telling(self, control_plane: Option<SocketAddr>) -> Self {
        Self { control_plane, ..self }
    }

    /// The agent is that of a node of this name, instead of that of the machine.
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }

    /// Writes them, also for an agent that runs: it reads them again within some two seconds.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        for (name, text) in [("pods.yaml", &self.pods), ("node-agent.yaml", &self.configuration)] {
            let draft = directory.join("draft.yaml");
            let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, directory.join(name)));
            written.context(name)?;
        }
        Ok(())
    }
}

/// A running agent. Dropping it kills the guardian, whose end its child notices.
#[derive(Debug)]
pub struct AgentProcess {
    // Dropped before the process, whose id is that of the group.
    group: Group,
    process: Process,
}

/// The process group of the guardian, and of the shell that starts it. Its child has its own.
#[derive(Debug)]
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        // A child that was stopped would not notice the end of its guardian.
        if let Some(child) = child(self.0) {
            let _ = kill(Pid::from_raw(child.cast_signed()), Signal::SIGCONT);
        }
        if let Ok(id) = i32::try_from(self.0) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl AgentProcess {
    /// Starts it. `memory` is the folder of the containers in the hierarchy of `memory`, if it is
    /// about that. With `restarts` a shell starts it again 2 s after it has ended, as the kubelet
    /// does.
    ///
    /// # Errors
    /// It does not start, or ends.
    pub async fn start(
        program: &Path,
        directory: &Path,
        containers: &Containers,
        memory: Option<&Path>,
        files: &Files,
        restarts: bool,
    ) -> anyhow::Result<Self> {
        let file = |name: &str| directory.join(name);
        files.write(directory)?;
        let pods = OsString::from_iter(["file:".as_ref(), file("pods.yaml").as_os_str()]);
        let mut arguments: Vec<OsString> = vec!["run".into()];
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        option("--config", file("node-agent.yaml").into());
        option("--pods", pods);
        option("--cgroups", containers.cpu().into());
        if let Some(cpuacct) = containers.cpuacct() {
            option("--cpuacct", cpuacct.into());
        }
        if let Some(memory) = memory {
            option("--memory", memory.into());
        }
        option("--state", file("state").into());
        if let Some(control_plane) = files.control_plane {
            option("--control-plane", format!("http://{control_plane}").into());
        }
        if let Some(node) = &files.node {
            option("--node", node.into());
        }
        option("--listen", "127.0.0.1:0".into());
        option("--address-file", file("agent.address").into());
        let program = if restarts {
            let shell = ["-c", "while :; do \"$0\" \"$@\"; sleep 2; done"].map(OsString::from);
            let arguments = shell.into_iter().chain([program.into()]).chain(arguments).collect();
            Program { name: "node-agent".into(), executable: "/bin/sh".into(), arguments }
        } else {
            Program { name: "node-agent".into(), executable: program.to_owned(), arguments }
        };
        let process = Process::start(program, directory).await?;
        let group = Group(process.id().context("the agent has no process id")?);
        let mut agent = Self { group, process };
        agent.process.written(&file("agent.address"), START, |text| text.parse::<SocketAddr>().ok()).await?;
        Ok(agent)
    }

    /// The CPU time of its processes until now.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu(&mut self) -> anyhow::Result<Duration> {
        self.process.check()?;
        let children = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let children = children.filter(|process| parent(*process) == Some(self.group.0));
        let mut sum = cpu_time(self.group.0)?;
        for child in children {
            // One that ends at this moment has no more to say.
            sum += cpu_time(child).unwrap_or_default();
        }
        Ok(sum)
    }

    /// Its processes, which another task may look for.
    pub fn processes(&self) -> Processes {
        Processes { shell: self.group.0 }
    }

    /// Stops the guardian's child, which does the work. Not for one that a shell starts.
    ///
    /// # Errors
    /// It has none.
    pub fn hang(&self) -> anyhow::Result<()> {
        let child = child(self.group.0).context("the guardian has no child")?;
        Ok(kill(Pid::from_raw(child.cast_signed()), Signal::SIGSTOP)?)
    }

    /// Lets it release its containers, also if a shell would start it again, and ends it.
    pub async fn stop(self) {
        if let Some((guardian, _)) = self.processes().guardian_and_agent() {
            // The shell first, which would start another one.
            self.process.signal(Signal::SIGKILL);
            let _ = kill(Pid::from_raw(guardian.cast_signed()), Signal::SIGTERM);
            let gone = || !Path::new(&format!("/proc/{guardian}")).exists();
            for _ in 0..STOP_LOOKS {
                if gone() {
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        self.end().await;
    }

    /// Lets it release its containers, and ends it.
    pub async fn end(self) {
        let Self { group, process } = self;
        process.end().await;
        // A child that outlives its guardian keeps the group, and so the group's id, alive.
        drop(group);
    }
}

/// The processes of an agent that a shell starts.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    shell: u32,
}

impl Processes {
    /// The guardian and its child, as they are now.
    pub fn guardian_and_agent(self) -> Option<(u32, u32)> {
        let guardian = child(self.shell)?;
        Some((guardian, child(guardian)?))
    }
}

/// A child of a process.
fn child(of: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.find(|process| parent(*process) == Some(of))
}

/// The parent of a process.
fn parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Cores as Kubernetes writes them.
fn milli(cores: f64) -> String {
    format!("{:.0}m", cores * 1e3)
}

fn more(parameters: &str) -> String {
    if parameters.is_empty() { String::new() } else { format!(", {parameters}") }
}

fn configuration(pods: &[Pod], resource: &str) -> String {
    let mut apps: Vec<&str> = pods.iter().map(|pod| &*pod.app).collect();
    apps.dedup();
    let app = |app: &str| format!("  {NAMESPACE}/{app}:\n    pods: {{matchLabels: {{app: {app}}}}}\n    {resource}\n");
    let apps: String = apps.into_iter().map(app).collect();
    format!("mode: enforce\noverrideLimits: true\napps:\n{apps}")
}

fn listed(pods: &[Pod], keeps: &str) -> String {
    let line = |Pod { app, uid, id }: &Pod| {
        format!(
            "- {{namespace: {NAMESPACE}, name: {uid}, uid: {uid}, labels: {{app: {app}}}, \
             containers: [{{name: app, id: \"{id}\", {keeps}}}]}}\n"
        )
    };
    pods.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_the_agent_reads() {
        let pods = [Pod::new("shop", 0), Pod::new("shop", 1), Pod::new("mail", 0)];
        let rule = Rule { limit: 1.0, floor: 0.02, more: "" };
        let text = Files::cpu(&pods, rule).configuration;
        let app = |name| {
            format!(
                "  lab/{name}:\n    pods: {{matchLabels: {{app: {name}}}}}\n    cpu: {{limit: 1000m, floor: 20m}}\n"
            )
        };
        assert_eq!(text, format!("mode: enforce\noverrideLimits: true\napps:\n{}{}", app("shop"), app("mail")));
        let text = Files::cpu(&pods[..1], Rule { more: "slack: 100m, window: 5", ..rule }).configuration;
        assert!(text.ends_with("    cpu: {limit: 1000m, floor: 20m, slack: 100m, window: 5}\n"), "{text}");
        let text = Files::cpu(&pods[1..2], rule).pods;
        let id = "0".repeat(63) + "2";
        let expected = format!(
            "- {{namespace: lab, name: shop-1, uid: shop-1, labels: {{app: shop}}, \
             containers: [{{name: app, id: \"{id}\", requests: 20m}}]}}\n"
        );
        assert_eq!(text, expected);
        let files = Files::memory(&pods[1..2], MemoryRule { limit: 7, requests: 5, more: "step: 16Mi" });
        assert!(files.configuration.ends_with("}\n    memory: {limit: 7, step: 16Mi}\n"), "{files:?}");
        assert_eq!(files.pods, expected.replace("requests: 20m", "memory: 5"));

        let rule = QosRule { target: Duration::from_millis(150), requests: 0.02, more: "threshold: 1.2, step: 20" };
        let files = Files::qos(&pods[1..2], &pods[2], 0.2, rule);
        let resource = "    qos: {target: 150ms, threshold: 1.2, step: 20}\n";
        assert!(files.configuration.ends_with(&format!("{{app: shop}}}}\n{resource}")), "{files:?}");
        assert!(!files.configuration.contains("mail"), "that is nobody's business");
        let [one, other] = files.pods.lines().collect::<Vec<_>>()[..] else { panic!("{}", files.pods) };
        assert_eq!(format!("{one}\n"), expected);
        assert!(other.contains("name: mail-0,") && other.ends_with("requests: 200m}]}"), "{other}");
    }

    #[test]
    fn replaces_the_files_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let rule = Rule { limit: 1.0, floor: 0.02, more: "" };
        let files = |limit| Files::cpu(&[Pod::new("shop", 0)], Rule { limit, ..rule });
        for limit in [1.0, 0.5] {
            files(limit).write(directory.path()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("node-agent.yaml").ends_with("    cpu: {limit: 500m, floor: 20m}\n"));
        assert_eq!((read("pods.yaml"), fs::read_dir(directory.path()).unwrap().count()), (files(0.5).pods, 2));
    }

    #[test]
    fn knows_the_parent_of_a_process() {
        assert_eq!(parent(std::process::id()), Some(nix::unistd::getppid().as_raw().cast_unsigned()));
        assert_eq!(parent(u32::MAX), None);
    }
}
