//! The manifests on a real istiod, a real Kubernetes API server and real Envoys, on one machine and
//! without containers.
//!
//! Tests of the filters that need no Istio are not here but in `loadtest/tests`.
//!
//! | module | purpose |
//! |---|---|
//! | [`inside`] | an isolated machine, made of namespaces |
//! | [`node`], [`kubelet`] | a node: pods with an address, volumes, programs and probes |
//! | [`cluster`], [`api`] | etcd, API server, controller manager, and access to them |
//! | [`istio`] | istiod and the gateway, installed as by istioctl |
//! | [`mesh`] | all of these together |
//! | [`scenario`] | the tests |
//! | [`prometheus`] | a Prometheus that scrapes the mesh from outside |
//! | [`repeat`] | the repetition of failed scenarios |
//! | [`demo`] | the demo: least request, BLOC and bids in the mesh |
//! | [`files`] | the EnvoyFilters alone, on an istiod that reads them from files: no API server, no root |
//!
//! Real are: every manifest, admission by Istio's webhooks, injection, certificates, the capture of
//! traffic in each pod, and all of Envoy's configuration. Replaced are: the scheduler, the kubelet,
//! and the images, by programs of this machine.

mod api;
mod cluster;
mod demo;
mod files;
mod frontend;
mod inside;
mod istio;
mod kubelet;
mod mesh;
mod node;
mod programs;
mod prometheus;
mod repeat;
mod scenario;
mod tools;
mod upload;

use anyhow::Result;
use bloc_mesh::envoy::target_directory;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The manifests on a real istiod and a real Kubernetes API server, without containers.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the EnvoyFilters on an istiod without an API server; needs no root
    Files,
    /// Bring up the mesh and run the scenarios; one that fails is run once more on a fresh mesh
    Test {
        /// Chapters, which follow each other: attach, parameters, unlabelled, routes,
        /// configuration, gateway, failure, metrics, remote, leave; default: all
        chapters: Vec<String>,
        /// How many meshes share the work, unless chapters are named; 1 or 2
        #[arg(long, default_value = "2", value_parser = clap::value_parser!(u8).range(1..=2))]
        meshes: u8,
        /// Where the logs go
        #[arg(long, default_value_os_t = target_directory().join("istio-e2e"))]
        logs: PathBuf,
    },
    /// Bring up Istio and the shop with BLOC, and keep it until Ctrl-C
    Up,
    /// Bring up the shop, load it with least request, BLOC and bids in turn, print the table, and
    /// write target/istio-demo
    Demo,
    /// The application of the sample's frontends
    #[command(hide = true)]
    Frontend,
    /// Get a URL, from within a pod
    #[command(hide = true)]
    Get {
        /// The URL
        url: String,
    },
    /// Post to a server, from within a pod, a body that ends once a file exists
    #[command(hide = true)]
    Upload {
        /// HOST:PORT
        to: String,
        /// The file
        until: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match command {
        Command::Frontend => return runtime()?.block_on(frontend::serve()).map(|()| ExitCode::SUCCESS),
        Command::Get { url } => {
            let answer = runtime()?.block_on(mesh::Answer::get(url, &[]))?;
            println!("{}", serde_json::to_string(&answer)?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Upload { to, until } => {
            println!("{}", runtime()?.block_on(upload::send(to, until))?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Files => return runtime()?.block_on(files::run()),
        Command::Test { .. } | Command::Up | Command::Demo => {}
    }
    if !inside::is_inside() {
        // Reports a missing tool before the namespaces are made.
        tools::Tools::find()?;
        return match command {
            Command::Test { chapters, meshes, logs } => {
                repeat::run(chapters, *meshes, logs).map(|()| ExitCode::SUCCESS)
            }
            _ => inside::enter(&std::env::args().skip(1).collect::<Vec<_>>()),
        };
    }
    runtime()?.block_on(async {
        match command {
            Command::Test { chapters, logs, .. } => {
                let failure = scenario::run(chapters, logs).await?;
                let Some(failure) = failure else { return Ok(ExitCode::SUCCESS) };
                std::fs::write(logs.join(repeat::FAILURE), serde_json::to_vec(&failure)?)?;
                Ok(ExitCode::FAILURE)
            }
            Command::Demo => demo::run(&target_directory().join("istio-demo")).await,
            _ => scenario::up(&target_directory().join("istio-e2e")).await,
        }
    })
}
