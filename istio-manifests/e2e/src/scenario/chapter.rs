//! A sequence of scenarios, and its initial state.

use super::attach;
use crate::mesh::Mesh;
use anyhow::Result;
use std::pin::Pin;

/// The state in which a chapter begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Istio alone.
    Istio,
    /// The shop with BLOC, as the manifests attach it, and a capacity of 9.
    Attached,
}

/// The parameters of the shop's backend when a chapter begins.
pub const AT_FIRST: &str = "capacity: {estimator: static, limit: 9}";

impl Start {
    /// Establishes this state, on a mesh that has Istio alone.
    ///
    /// # Errors
    /// A step failed.
    pub async fn prepare(self, mesh: &Mesh) -> Result<()> {
        match self {
            Self::Istio => Ok(()),
            Self::Attached => {
                attach::the_shop_answers_without_bloc(mesh).await?;
                attach::the_shipped_manifests_attach_the_filters_to_the_shop(mesh).await?;
                mesh.set_parameters("shop", AT_FIRST).await?;
                mesh.capacity_in_force(9).await?;
                mesh.drained().await
            }
        }
    }
}

/// Scenarios in sequence.
pub struct Chapter {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its initial state.
    pub start: Start,
    /// Whether no proxy may refuse a configuration; some failures consist of that.
    pub all_accept: bool,
    /// Its scenarios, in order.
    pub scenarios: &'static [Scenario],
}

/// One scenario.
pub struct Scenario {
    /// Its module path.
    pub path: &'static str,
    /// What it does.
    pub run: for<'a> fn(&'a Mesh) -> Run<'a>,
}

/// The future of a running scenario.
type Run<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// The scenario at this path.
macro_rules! scenario {
    ($scenario:path) => {
        $crate::scenario::chapter::Scenario { path: stringify!($scenario), run: |mesh| Box::pin($scenario(mesh)) }
    };
}
pub(super) use scenario;
