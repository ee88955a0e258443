//! A row of scenarios, and how it went.

use super::attach;
use crate::mesh::{HUNG, Mesh};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::pin::Pin;
use tokio::time::Instant;

/// What a chapter finds when it begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Istio and nothing else.
    Istio,
    /// The shop with BLOC, as the manifests attach it, and a capacity of 9.
    Attached,
}

impl Start {
    /// Makes it so, on a mesh that has Istio alone.
    ///
    /// # Errors
    /// A step failed.
    pub async fn prepare(self, mesh: &Mesh) -> Result<()> {
        match self {
            Self::Istio => Ok(()),
            Self::Attached => {
                attach::the_shop_answers_without_bloc(mesh).await?;
                attach::the_manifests_as_shipped_attach_it(mesh).await?;
                mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}").await?;
                mesh.capacity_in_force(9).await?;
                mesh.drained().await
            }
        }
    }
}

/// Scenarios that follow each other.
pub struct Chapter {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it finds.
    pub start: Start,
    /// Whether no proxy may refuse a configuration: of some failures that is the point.
    pub all_accept: bool,
    /// What is tested, in order.
    pub scenarios: &'static [Scenario],
}

/// One scenario.
pub struct Scenario {
    /// Its path among the modules.
    pub path: &'static str,
    /// What it does.
    pub run: for<'a> fn(&'a Mesh) -> Run<'a>,
}

/// A scenario as it runs.
type Run<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// The scenario of this name.
macro_rules! scenario {
    ($scenario:path) => {
        $crate::scenario::chapter::Scenario { path: stringify!($scenario), run: |mesh| Box::pin($scenario(mesh)) }
    };
}
pub(super) use scenario;

/// No Envoy has refused what istiod sent it, so far.
fn nobody_refused_a_configuration(mesh: &Mesh) -> Result<()> {
    let refused = mesh.refused_configurations()?;
    ensure!(refused.is_empty(), "{REFUSED}: {}", refused.join("\n"));
    Ok(())
}

/// In the error of a scenario after which a proxy has refused its configuration.
const REFUSED: &str = "a proxy refused its configuration";

/// What went wrong, where.
#[derive(Debug, Deserialize, Serialize)]
pub struct Failure {
    /// The chapter, from which a repetition begins.
    pub chapter: String,
    /// The scenario, or the preparation.
    pub scenario: String,
    /// Why.
    pub error: String,
    /// A request had no answer, or a proxy refused its configuration: no repetition excuses that.
    pub fault: bool,
}

/// Brings up the mesh and runs these chapters, which follow each other. `None`: all is well.
///
/// # Errors
/// There is no such chapter.
pub async fn run(names: &[String], logs: &Path) -> Result<Option<Failure>> {
    let find = |name: &String| super::CHAPTERS.iter().find(|chapter| chapter.name == name);
    let chapters: Option<Vec<_>> = names.iter().map(find).collect();
    let chapters = chapters.with_context(|| format!("only {} are chapters", super::chapters().join(", ")))?;
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
                // What it has changed is not for the next one to suffer from.
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
