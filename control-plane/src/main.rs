//! `bloc-control-plane`: reads services from a source and serves them to the proxies.

use anyhow::{Context, Error, Result, anyhow};
use bloc_control_plane::agents::leases::{FileLeases, KubernetesLeases, LeaseStore, Leases, Tokens};
use bloc_control_plane::check::{Good, check};
use bloc_control_plane::http::identity::{Identity, NodeAgent, TrustDomain};
use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::server::{Listeners, Serving};
use bloc_control_plane::source::{self, FileSource, KubernetesSource};
use bloc_control_plane::store::Reach;
use bloc_control_plane::{Clock, ReportInterval, Store, schema, serve};
use bloc_daemon::options::{ListenOptions, LogOptions, Source};
use bloc_daemon::process;
use clap::{Parser, Subcommand, ValueEnum};
use kube::Config;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default namespace of the control plane.
const NAMESPACE: &str = "bloc-system";

/// Serves parameters and endpoints to proxies, load signals to autoscalers, and CPU limits to node
/// agents.
#[derive(Parser)]
#[command(version, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[command(mut_arg("listen", |arg| arg.required(false).default_value("127.0.0.1:7080")))]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Source of the services: file:PATH, a YAML file that is read again when it changes, or
    /// kubernetes
    #[arg(long, value_name = "SOURCE", required = true)]
    source: Option<Source>,

    /// With kubernetes: namespace of the ConfigMap that applies to the whole cluster
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// With kubernetes: the cluster's DNS domain
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,

    #[command(flatten)]
    listen: ListenOptions,

    /// Serve GET /metrics here instead of at --listen; port 0 selects a free port
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<SocketAddr>,

    /// Write the ip:port of --metrics-listen to this file, before --address-file is written
    #[arg(long, value_name = "FILE", requires = "metrics_listen")]
    metrics_address_file: Option<PathBuf>,

    /// How often a server's proxy reports its load, 1s to 60s; its polls are held no longer
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    report_interval: ReportInterval,

    /// How callers prove who they are: not at all, or by the SPIFFE ID that this pod's sidecar
    /// reports
    #[arg(long, value_enum, default_value = "none")]
    identity: IdentityKind,

    /// With spiffe: the only trust domain that is accepted [default: that of this pod's sidecar]
    #[arg(long, value_name = "DOMAIN")]
    trust_domain: Option<TrustDomain>,

    /// With spiffe: namespace and service account of the node agents
    #[arg(long, value_name = "ns/NAMESPACE/sa/ACCOUNT", default_value = "ns/bloc-node/sa/bloc-node-agent")]
    node_agent: NodeAgent,

    /// With file: store the CPU leases of node agents in this file; without it, there are no leases
    #[arg(long, value_name = "FILE")]
    leases: Option<PathBuf>,

    #[command(flatten)]
    log: LogOptions,
}

#[derive(Subcommand)]
enum Command {
    /// Check a services file, or the labelled ConfigMaps in a file of manifests; if any would be
    /// refused, print the reasons and exit with 1
    Check {
        /// The file to check; `-` reads standard input
        file: PathBuf,

        /// Namespace of the ConfigMap that applies to the whole cluster, and of ConfigMaps that
        /// name none
        #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
        namespace: String,
    },
    /// Print a JSON Schema for editors
    Schema {
        /// The kind of file, or `parameters`
        #[arg(value_enum)]
        form: Form,
    },
}

/// What describes the files that people write.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// A services file
    Services,
    /// services.yaml in a ConfigMap
    Policy,
    /// The parameters of a service, as a table in Markdown
    Parameters,
}

#[derive(Clone, Copy, ValueEnum)]
enum IdentityKind {
    None,
    Spiffe,
}

#[tokio::main]
async fn main() {
    let result = run(Arguments::parse()).await;
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    // Does not wait for threads: a hung file system may keep one.
    std::process::exit(i32::from(result.is_err()))
}

async fn run(arguments: Arguments) -> Result<()> {
    if let Some(command) = arguments.command {
        return answer(command);
    }
    let Some(source) = arguments.source else { return Err(anyhow!("--source is required")) };
    let identity = match (arguments.identity, arguments.trust_domain) {
        (IdentityKind::None, None) => Identity::None,
        (IdentityKind::None, Some(domain)) => {
            return Err(anyhow!("--trust-domain {domain} needs --identity spiffe"));
        }
        (IdentityKind::Spiffe, domain) => Identity::Spiffe(domain),
    };
    if let (Source::Kubernetes, Some(file)) = (&source, &arguments.leases) {
        return Err(anyhow!("--leases {} needs --source file:PATH", file.display()));
    }
    arguments.log.start();
    process::raise_open_files();
    let address_file = arguments.metrics_address_file;
    let metrics_listen = arguments.metrics_listen.map(|listen| ListenOptions { listen, address_file });
    for listen in metrics_listen.iter().chain([&arguments.listen]) {
        listen.remove_file()?;
    }
    let stop = process::stopped()?;
    let metrics = Arc::new(Metrics::default());
    let store = Store::new(source.to_string(), Clock::system(), arguments.report_interval);
    let mut serving = Serving { identity, ..Serving::default() };
    serving.agents.account = arguments.node_agent;
    let leases = |store: Arc<dyn LeaseStore>| Some(Leases::new(store, Arc::clone(&metrics)));
    let source = match source {
        Source::File(path) => {
            let (source, snapshot) = FileSource::open(path).await.map_err(Error::msg)?;
            if let Some(file) = arguments.leases {
                serving.agents.leases = leases(Arc::new(FileLeases::open(file)?));
            }
            store.publish(snapshot, Reach::default());
            let store = store.clone();
            tokio::spawn(async move {
                source.watch(store).await;
            })
        }
        Source::Kubernetes => {
            let client = kubernetes().await.context("cannot configure the client of the Kubernetes API")?;
            let (namespace, domain) = (arguments.namespace, arguments.cluster_domain);
            let records = KubernetesLeases::new(client.clone(), &namespace, Arc::clone(&metrics));
            serving.agents.leases = leases(Arc::new(records));
            serving.agents.tokens = Some(Tokens::new(client.clone(), &serving.agents.account));
            let source = KubernetesSource::new(client, namespace, domain);
            tokio::spawn(source.run(store.clone(), Arc::clone(&metrics)))
        }
    };

    let metrics_listener = match metrics_listen {
        Some(listen) => Some(listen.bind("metrics").await?),
        None => None,
    };
    let listeners = Listeners { main: arguments.listen.bind("all").await?, metrics: metrics_listener };
    serve(listeners, store, metrics, serving, stop).await;
    source.abort();
    Ok(())
}

/// Runs a command that needs no server.
fn answer(command: Command) -> Result<()> {
    match command {
        Command::Check { file, namespace } => {
            let text = if file == Path::new("-") {
                std::io::read_to_string(std::io::stdin())
            } else {
                std::fs::read_to_string(&file)
            };
            let text = text.with_context(|| format!("{}: cannot be read", file.display()))?;
            let verdict = check(&text, &namespace).map_err(|errors| {
                let lines: Vec<_> = errors.iter().map(|error| format!("{}: {error}", file.display())).collect();
                anyhow!(lines.join("\n"))
            })?;
            for warning in &verdict.warnings {
                eprintln!("{}: warning: {warning}", file.display());
            }
            match verdict.good {
                Good::Services(count) => println!("ok: {count} services"),
                Good::ConfigMaps(count) => println!("ok: {count} ConfigMaps"),
            }
        }
        Command::Schema { form: Form::Services } => print!("{}", schema::services()),
        Command::Schema { form: Form::Policy } => print!("{}", schema::policy()),
        Command::Schema { form: Form::Parameters } => print!("{}", schema::parameters()),
    }
    Ok(())
}

/// A client configured by `KUBECONFIG`, `~/.kube/config` or the pod.
async fn kubernetes() -> Result<kube::Client> {
    Ok(source::kubernetes::client(Config::infer().await?)?)
}
