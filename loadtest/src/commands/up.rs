//! `bloc-lab up`.

use super::mesh_options::MeshOptions;
use crate::console::{bar, run_directory, tools};
use anyhow::Context;
use bloc_mesh::{Mesh, target_directory};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Start a mesh and leave it running.
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    mesh: MeshOptions,
}

/// How often to check the processes.
const WATCH: Duration = Duration::from_secs(1);

/// The file in which `up` describes its mesh to `stats`.
pub fn mesh_file() -> PathBuf {
    target_directory().join("lab/mesh.json")
}

impl Up {
    /// Starts it and waits for a signal.
    pub async fn run(self) -> anyhow::Result<()> {
        let spec = self.mesh.spec();
        let (directory, bar) = (run_directory("up"), bar("mesh".into()));
        let began = Instant::now();
        let mut mesh = Mesh::start(&spec, &tools()?, &directory, &bar).await?;
        bar.finish_and_clear();
        let (file, url) = (mesh_file(), format!("http://{}/", mesh.gateway()));
        let admins = serde_json::to_string_pretty(&mesh.admins())?;
        std::fs::write(&file, admins).with_context(|| file.display().to_string())?;
        eprintln!(
            "{}: {} frontends, {} backends, ready in {:.1} s; logs in {}; Ctrl-C ends it",
            spec.policy.title(spec.choice()),
            spec.frontends,
            spec.backends,
            began.elapsed().as_secs_f64(),
            directory.display(),
        );
        // The only output on standard output, for scripts.
        println!("{url}");
        loop {
            mesh.check()?;
            sleep(WATCH).await;
        }
    }
}
