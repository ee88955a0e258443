//! `bloc-node-agent`: moves CPU and memory between the containers of an application.

use anyhow::{Context, Result, anyhow, bail};
use bloc_daemon::options::{ListenOptions, LogOptions, Source};
use bloc_daemon::process::raise_open_files;
use bloc_daemon::watched::Watched;
use bloc_node_agent::agent::{Agent, Capacity};
use bloc_node_agent::cgroup::Tree;
use bloc_node_agent::config::Config;
use bloc_node_agent::lease::{self, Asker, LeaseFile, Leases};
use bloc_node_agent::replicas::Target;
use bloc_node_agent::report;
use bloc_node_agent::run::{self, Pods, Shared};
use bloc_node_agent::source::{self, kubernetes};
use bloc_node_agent::state::State;
use bloc_node_agent::{Bytes, Cores, guardian};
use clap::{Args, Parser, Subcommand};
use kube::Client;
use nix::unistd::{SysconfVar, sysconf};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Moves CPU and memory between the containers of an application, under one limit.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the agent and its guardian until SIGTERM
    Run(Run),
    /// The agent itself, which `run` starts
    #[command(hide = true)]
    Agent(Run),
    /// Restores the quotas, limits and CPU shares that groups had before an agent changed them
    Restore(Place),
    /// Checks a configuration; exits with 1 and the reason if an agent would refuse it
    Check {
        /// The configuration
        file: PathBuf,
    },
}

#[derive(Args)]
struct Place {
    /// The kubelet's directory of groups, such as /sys/fs/cgroup/kubepods.slice; for cgroup version
    /// 1 the one in the cpu hierarchy
    #[arg(long, value_name = "DIR")]
    cgroups: PathBuf,

    /// For cgroup version 1: the same directory in the cpuacct hierarchy
    #[arg(long, value_name = "DIR")]
    cpuacct: Option<PathBuf>,

    /// For cgroup version 1: the same directory in the memory hierarchy, to manage memory
    #[arg(long, value_name = "DIR")]
    memory: Option<PathBuf>,

    /// Where the original settings are saved, on the host
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
}

#[derive(Args)]
#[command(mut_arg("listen", |arg| {
    let help = "Address that serves GET /metrics and /healthz; port 0 takes a free one";
    arg.required(false).default_value("127.0.0.1:7082").help(help)
}))]
struct Run {
    #[command(flatten)]
    place: Place,

    /// The configuration, YAML; read again when it changes
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The source of the node's pods: kubernetes, or file:PATH, a YAML file that is read again when
    /// it changes
    #[arg(long, value_name = "SOURCE")]
    pods: Source,

    /// The name of this node; required with --pods kubernetes
    #[arg(long, value_name = "NAME", env = "NODE_NAME", required_if_eq("pods", "kubernetes"))]
    node: Option<String>,

    /// With --pods kubernetes: the namespace of the agent's own DaemonSet
    #[arg(long, value_name = "NAME", default_value = "bloc-node")]
    namespace: String,

    /// With --pods kubernetes: the name of the agent's own DaemonSet
    #[arg(long, value_name = "NAME", default_value = kubernetes::DAEMON_SET)]
    daemon_set: String,

    /// URL of the control plane, http://HOST:PORT; every address that HOST resolves to is used. It
    /// gets the pods' quotas, which their sidecars follow, and provides response times and leases
    /// of cluster-wide limits
    #[arg(long, value_name = "URL")]
    control_plane: Option<Target>,

    /// The file with the token that proves to the control plane which node this is; read for each
    /// request. Leases may need it
    #[arg(long, value_name = "FILE", requires = "control_plane")]
    token: Option<PathBuf>,

    #[command(flatten)]
    listen: ListenOptions,

    #[command(flatten)]
    log: LogOptions,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => guard(&arguments).await,
        Command::Agent(arguments) => agent(arguments).await,
        Command::Restore(place) => restore(&place),
        Command::Check { file } => check(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // Returning would wait for a thread that reads input.
            std::process::exit(1)
        }
    }
}

async fn guard(arguments: &Run) -> Result<()> {
    arguments.log.start();
    let agent: Vec<OsString> = std::iter::once("agent".into()).chain(std::env::args_os().skip(2)).collect();
    guardian::guard(&agent, &tree(&arguments.place)?, &arguments.place.state).await
}

async fn agent(arguments: Run) -> Result<()> {
    arguments.log.start();
    raise_open_files();
    arguments.listen.remove_file()?;
    let tree = tree(&arguments.place)?;
    let _lock = guardian::wait_for_lock(&arguments.place.state, "agent.lock").await?;
    let listener = arguments.listen.bind("metrics").await?;
    let capacity = capacity()?;
    tracing::info!(version = ?tree.version(), cores = %capacity.cores, memory = %capacity.memory, cgroups = %tree.path().display(), "starting");
    let state = State::open(&arguments.place.state)?;
    let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let node = arguments.node.clone().or_else(host).unwrap_or_default().to_lowercase();
    let mut agent = Agent::new(tree, state, capacity);
    let mut shared = Shared::default();
    let read = if arguments.control_plane.is_some() { Config::read } else { Config::read_without_control_plane };
    // Also read without a control plane: a file that cannot be read must not be ignored.
    let (file, saved) = LeaseFile::open(&arguments.place.state, &node)?;
    if let Some(target) = arguments.control_plane {
        let leases = Leases::new(&saved);
        agent = agent.with_leases(Some(leases.clone()));
        let asker = Asker { target: target.clone(), node: node.clone(), token: arguments.token, file, saved };
        let counted = shared.clone();
        tokio::spawn(lease::ask(asker, leases, move |kind, error| counted.count_error(kind, error)));
        let ((told, heard), counted) = (shared.report(), shared.clone());
        let failed = move |error| counted.count_error("control-plane", error);
        tokio::spawn(report::report(target, node, told, heard, failed));
    }
    let config = Watched::new(arguments.config, read);
    tokio::spawn(run::serve(listener, shared.clone()));
    // The tasks end with the runtime.
    match arguments.pods {
        Source::File(path) => {
            let pods = Pods::File(Watched::new(path, source::read_pods));
            run::run(agent, config, pods, shared, std::future::ready(false)).await
        }
        Source::Kubernetes => {
            let client = Client::try_default().await.context("cannot configure a client for the Kubernetes API")?;
            let node = arguments.node.context("--node is missing")?;
            let (sender, told) = watch::channel(Arc::default());
            let (asked, counted) = (client.clone(), shared.clone());
            tokio::spawn(async move {
                let failed = || counted.count_error("pods", "a request to the Kubernetes API");
                kubernetes::watch(asked, &node, sender, failed).await;
            });
            let leaves = kubernetes::is_leaving(client, &arguments.namespace, &arguments.daemon_set);
            let pods = Pods::Told { pods: told, without: arguments.namespace.clone() };
            run::run(agent, config, pods, shared, leaves).await
        }
    }
}

/// How long `restore` tries.
const PATIENCE: Duration = Duration::from_secs(10);

fn restore(place: &Place) -> Result<()> {
    LogOptions::default().start();
    let tree = tree(place)?;
    let _locks = (guardian::lock(&place.state, "guardian.lock")?, guardian::lock(&place.state, "agent.lock")?);
    let mut state = State::open(&place.state)?;
    let errors = state.restore_all(&tree, PATIENCE);
    state.save()?;
    let errors = errors.iter().map(ToString::to_string);
    let lines: Vec<String> = state.problems().cloned().chain(errors).collect();
    if lines.is_empty() { Ok(()) } else { bail!("{}", lines.join("\n")) }
}

fn check(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let config = Config::read(&text).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let needs = Config::read_without_control_plane(&text).err();
    let only = needs.map_or_else(String::new, |error| format!("; only for an agent with --control-plane: {error}"));
    println!("ok: {} applications{only}", config.apps.len());
    Ok(())
}

fn tree(place: &Place) -> Result<Tree> {
    Ok(Tree::open(&place.cgroups, place.cpuacct.as_deref())?.with_memory(place.memory.as_deref())?)
}

/// The node's resources, not those that this process may use.
fn capacity() -> Result<Capacity> {
    let value = |variable| Ok::<_, anyhow::Error>(sysconf(variable)?.filter(|value| *value > 0));
    let online = value(SysconfVar::_NPROCESSORS_ONLN)?.and_then(|online| u32::try_from(online).ok());
    let cores = Cores::new(f64::from(online.context("the number of processors is unknown")?));
    let pages = value(SysconfVar::_PHYS_PAGES)?.zip(value(SysconfVar::PAGE_SIZE)?);
    let bytes = pages.and_then(|(pages, size)| u64::try_from(pages.checked_mul(size)?).ok());
    Ok(Capacity { cores, memory: Bytes::new(bytes.context("the size of the memory is unknown")?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_daemon_sets_arguments_are_understood() {
        let manifest = include_str!("../../../istio-manifests/node-agent/daemonset.yaml");
        let set = bloc_yaml::values(manifest).unwrap();
        let arguments = set["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let arguments = arguments.iter().map(|argument| argument.as_str().unwrap());
        let Command::Run(run) =
            Arguments::try_parse_from(["bloc-node-agent"].into_iter().chain(arguments)).unwrap().command
        else {
            panic!("it does not run");
        };
        assert!(matches!(run.pods, Source::Kubernetes) && run.node.is_some());
        assert_eq!(run.place.cgroups, Path::new("/kubepods"));
        assert_eq!(run.namespace, "bloc-node");
    }

    #[test]
    fn with_the_overlay_it_has_a_control_plane_and_the_token_that_is_mounted() {
        let set = bloc_yaml::values(include_str!("../../../istio-manifests/node-agent/daemonset.yaml")).unwrap();
        let overlay: Value =
            bloc_yaml::values(include_str!("../../../istio-manifests/overlays/node-agent/kustomization.yaml")).unwrap();
        let patches = overlay["patches"].as_array().unwrap();
        let patch = patches.iter().find(|patch| patch["target"]["kind"] == "DaemonSet").unwrap();
        let patch: Value = bloc_yaml::values(patch["patch"].as_str().unwrap()).unwrap();
        let added = |path: &str| -> Vec<Value> {
            let steps = patch.as_array().unwrap().iter().filter(|step| step["path"] == path);
            steps.map(|step| step["value"].clone()).collect()
        };
        let arguments = set["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().clone();
        let arguments = arguments.into_iter().chain(added("/spec/template/spec/containers/0/args/-"));
        let arguments: Vec<String> = arguments.map(|argument| argument.as_str().unwrap().to_owned()).collect();
        let arguments = std::iter::once("bloc-node-agent".to_owned()).chain(arguments);
        let Command::Run(run) = Arguments::try_parse_from(arguments).unwrap().command else {
            panic!("it does not run");
        };
        assert_eq!(run.control_plane.unwrap().authority(), "bloc-control-plane-replicas.bloc-system:7080");
        let (mounts, volumes) =
            (added("/spec/template/spec/containers/0/volumeMounts/-"), added("/spec/template/spec/volumes/-"));
        let ([mount], [volume]) = (&mounts[..], &volumes[..]) else { panic!("{mounts:?} {volumes:?}") };
        let token = &volume["projected"]["sources"][0]["serviceAccountToken"];
        let path = Path::new(mount["mountPath"].as_str().unwrap()).join(token["path"].as_str().unwrap());
        assert_eq!((run.token, &mount["name"]), (Some(path), &volume["name"]));
        assert_eq!(token["audience"], "bloc-control-plane");
    }

    #[test]
    fn kubernetes_needs_the_name_of_the_node() {
        let arguments =
            |pods| ["bloc-node-agent", "run", "--config", "a", "--cgroups", "b", "--state", "c", "--pods", pods];
        let error = Arguments::try_parse_from(arguments("kubernetes")).err().unwrap().to_string();
        assert!(error.contains("--node"), "{error}");
        assert!(Arguments::try_parse_from(arguments("file:pods.yaml")).is_ok());
        let error = Arguments::try_parse_from(arguments("docker")).err().unwrap().to_string();
        assert!(error.contains("expected file:PATH or kubernetes"), "{error}");
    }
}
