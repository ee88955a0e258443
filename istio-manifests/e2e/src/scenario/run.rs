//! Runs chapters on a mesh, and reports the results.

use super::chapter::{Chapter, Start};
use super::chapters::{self, CHAPTERS};
use crate::mesh::{HUNG, Mesh};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::ExitCode;
use tokio::time::Instant;

/// Checks that no Envoy has refused istiod's configuration so far.
fn nobody_refused_a_configuration(mesh: &Mesh) -> Result<()> {
    let refused = mesh.refused_configurations()?;
    ensure!(refused.is_empty(), "{REFUSED}: {}", refused.join("\n"));
    Ok(())
}

/// Marks the error of a scenario after which a proxy has refused its configuration.
const REFUSED: &str = "a proxy refused its configuration";

/// A failure, and where it occurred.
#[derive(Debug, Deserialize, Serialize)]
pub struct Failure {
    /// The chapter from which a repetition begins.
    pub chapter: String,
    /// The scenario, or the preparation.
    pub scenario: String,
    /// The error.
    pub error: String,
    /// Whether a request had no answer, or a proxy refused its configuration: then it must not be
    /// repeated.
    pub fault: bool,
}

/// Brings up the mesh and runs these chapters in sequence. `None`: no failure.
///
/// # Errors
/// There is no such chapter.
pub async fn run(names: &[String], logs: &Path) -> Result<Option<Failure>> {
    let find = |name: &String| CHAPTERS.iter().find(|chapter| chapter.name == name);
    let chapters: Option<Vec<_>> = names.iter().map(find).collect();
    let chapters = chapters.with_context(|| format!("allowed chapters: {}", chapters::chapters().join(", ")))?;
    let [first, ..] = chapters[..] else { bail!("no chapter") };
    let failed = |chapter: &Chapter, scenario: &str, error: &anyhow::Error| {
        let scenario = scenario.replace("::", ": ").replace('_', " ");
        println!("FAILED  {scenario}: {error:#}");
        let error = format!("{error:#}");
        let fault = error.contains(HUNG) || error.contains(REFUSED);
        Some(Failure { chapter: chapter.name.to_owned(), scenario, error, fault })
    };

    let began = Instant::now();
    let mut mesh = match Mesh::start(logs).await {
        Ok(mesh) => mesh,
        Err(error) => return Ok(failed(first, "the mesh comes up", &error)),
    };
    println!("mesh up after {:.0} s; logs are in {}", began.elapsed().as_secs_f64(), logs.display());
    if let Err(error) = first.start.prepare(&mesh).await {
        return Ok(failed(first, &format!("what {} begins with", first.name), &error));
    }
    for chapter in chapters {
        for scenario in chapter.scenarios {
            let began = Instant::now();
            let outcome = match (scenario.run)(&mesh).await {
                // So that its changes do not affect the next one.
                Ok(()) => mesh.drained().await,
                failed => failed,
            };
            let outcome = match chapter.all_accept {
                true => outcome.and_then(|()| nobody_refused_a_configuration(&mesh)),
                false => outcome,
            };
            if let Err(error) = outcome.and_then(|()| mesh.check()) {
                return Ok(failed(chapter, scenario.path, &error));
            }
            let name = scenario.path.replace("::", ": ").replace('_', " ");
            println!("ok      {name} ({:.1} s)", began.elapsed().as_secs_f64());
        }
    }
    println!("all passed after {:.0} s", began.elapsed().as_secs_f64());
    Ok(None)
}

/// Brings up the shop with BLOC and waits.
///
/// # Errors
/// The mesh does not come up.
pub async fn up(logs: &Path) -> Result<ExitCode> {
    let mesh = Mesh::start(logs).await?;
    Start::Attached.prepare(&mesh).await?;
    println!("gateway: http://{}:8080, in the namespaces of process {}", mesh.gateway()?.address, std::process::id());
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}
