//! `bloc-control-plane`: reads services from a source and serves them to the proxies.

use anyhow::{Context, Result, anyhow};
use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::source::{FileSource, Publisher};
use bloc_control_plane::{Clock, ReportInterval, Store, serve};
use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Hands the parameters and endpoints of services to the proxies, by long poll.
#[derive(Parser)]
#[command(version, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Where the services come from: file:PATH, a YAML file that is watched
    #[arg(long, value_name = "SOURCE", required = true)]
    source: Option<Source>,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7080")]
    listen: SocketAddr,

    /// Writes ip:port into this file when the server is listening
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,

    /// How often proxies that serve something report their load, 1s to 60s: their polls are held no longer
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    report_interval: ReportInterval,

    /// How the log on standard error looks
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,

    /// What is logged: error, warn, info, debug, or directives such as bloc_control_plane=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: EnvFilter,
}

#[derive(Subcommand)]
enum Command {
    /// Checks a services file; exit code 1 and the reason if it would be refused
    Check {
        /// The file
        file: PathBuf,
    },
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
}

#[derive(Clone, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err("expected file:PATH".to_owned()),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    if let Some(Command::Check { file }) = arguments.command {
        let (_, snapshot) = FileSource::open(file).await?;
        println!("ok: {} services", snapshot.services().len());
        return Ok(());
    }
    let Some(Source::File(path)) = arguments.source else { return Err(anyhow!("--source is missing")) };
    let log = tracing_subscriber::fmt().with_env_filter(arguments.log).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
    // Each held poll is an open connection; the usual soft limit of 1,024 would end that early.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    // The address file says "now"; one left behind by an earlier run would lie.
    if let Some(file) = &arguments.address_file {
        remove(file).with_context(|| format!("{}: cannot be removed", file.display()))?;
    }
    let stop = stop_signal()?;
    let metrics = Arc::new(Metrics::default());
    let store = Store::new(format!("file:{}", path.display()), Clock::system(), arguments.report_interval);
    let publisher = Publisher::new(store.clone(), Arc::clone(&metrics));
    let (source, snapshot) = FileSource::open(path).await?;
    publisher.accept(snapshot);
    let source = tokio::spawn(source.watch(publisher));

    let listen = arguments.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    if let Some(file) = &arguments.address_file {
        write(file, address).with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    let result = serve(listener, store, metrics, stop).await;
    source.abort();
    Ok(result?)
}

/// Completes at SIGTERM or SIGINT.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn remove(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes beside the file and renames, so that a reader never sees half an address.
fn write(file: &Path, address: SocketAddr) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, format!("{address}\n"))?;
    std::fs::rename(&beside, file)
}
