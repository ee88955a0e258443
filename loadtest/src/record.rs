//! The record of a case: its row in `summary.json`, and what a report needs besides.

use bloc_figures::stats::rounded;
use bloc_mesh::envoy::workspace;
use bloc_mesh::policy::{Choice, Policy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// One row of `summary.json`. The fields are fixed, because others' tools read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `closed-loop`, `poisson`, or the name of the experiment that the case belongs to, such as
    /// `heterogeneous`.
    pub experiment: String,
    /// What balanced the load.
    pub policy: Policy,
    /// How many frontends.
    pub frontends: usize,
    /// How many backends.
    pub backends: usize,
    /// As on the command line, such as `closed:100`.
    pub load: String,
    /// Mean service time.
    pub service_ms: f64,
    /// All requests of the measured time.
    pub requests: u64,
    /// Requests that an application answered.
    pub ok: u64,
    /// Requests that were rejected after all retries.
    pub shed: u64,
    /// All other requests.
    pub errors: u64,
    /// 10th percentile of the response time. This and the next three cover `ok`; none if nothing
    /// was answered.
    pub p10_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// `ok` per second.
    pub throughput_rps: f64,
    /// Attempts of the frontends' sidecars, per request.
    pub attempts_per_request: f64,
    /// Mean response time, over `ok`; none if nothing was answered.
    #[serde(default)]
    pub mean_ms: Option<f64>,
    /// CPU time of all Envoys together per answered request; none if nothing was answered.
    #[serde(default)]
    pub envoy_cpu_ms_per_request: Option<f64>,
    /// How each frontend chose a server, so which least request it is. None in rows of earlier
    /// releases, see [`Row::choice`].
    #[serde(default)]
    pub balancing: Option<Choice>,
}

/// The experiment that had two choices with a single frontend before rows recorded it.
const TWO_CHOICES_OF_OLD: &str = "heterogeneous";

impl Row {
    /// How each frontend chose a server. Rows of earlier releases do not record it. There, with a
    /// single frontend, one experiment had two choices and all others full scan.
    pub fn choice(&self) -> Choice {
        self.balancing.unwrap_or_else(|| self.policy.choice(self.frontends, self.experiment == TWO_CHOICES_OF_OLD))
    }

    /// The name for a reader: the policy, and which least request it is.
    pub fn title(&self) -> &'static str {
        self.policy.title(self.choice())
    }
}

/// A row and its details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The row.
    pub row: Row,
    /// Response times at the shares 0, 1/400, ... 1 of the answered requests, in milliseconds;
    /// empty if nothing was answered.
    pub quantiles_ms: Vec<f64>,
    /// Median time until a request was shed; none if none was.
    #[serde(default)]
    pub shed_p50_ms: Option<f64>,
    /// Errors by kind.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// The filters' own counters, summed over all sidecars, within the measured time.
    pub counters: BTreeMap<String, u64>,
    /// The command that repeats this case.
    pub command: String,
    /// How long was measured, in seconds.
    pub measured_s: f64,
    /// How long the mesh took to get ready, in seconds.
    pub mesh_start_s: f64,
    /// Where it was measured.
    pub environment: Environment,
}

/// Where a case was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor, as the system calls it.
    pub processor: String,
    /// How many cores.
    pub cores: usize,
    /// The release of Envoy.
    pub envoy: String,
    /// The release and the commit of this program, and whether it is a debug build.
    pub lab: String,
}

/// Steps of [`Record::quantiles_ms`].
pub const STEPS: usize = 400;

impl Record {
    /// The share of the answered requests that the quantile of this step, 0 to [`STEPS`], stands
    /// for.
    pub fn share(step: usize) -> f64 {
        step as f64 / STEPS as f64
    }

    /// `p90 - p10`, in milliseconds.
    pub fn range_ms(&self) -> Option<f64> {
        Some(self.row.p90_ms? - self.row.p10_ms?)
    }
}

impl From<Row> for Record {
    /// A record of which only the row is known.
    fn from(row: Row) -> Self {
        Self {
            row,
            quantiles_ms: vec![],
            shed_p50_ms: None,
            errors_by_kind: BTreeMap::new(),
            counters: BTreeMap::new(),
            command: String::new(),
            measured_s: 0.0,
            mesh_start_s: 0.0,
            environment: Environment::default(),
        }
    }
}

impl Environment {
    /// This machine, this program, and an Envoy of the given release.
    pub fn here(envoy: String) -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let build = if cfg!(debug_assertions) { " (debug build)" } else { "" };
        Self {
            processor: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            envoy,
            lab: format!("{}{}{build}", env!("CARGO_PKG_VERSION"), commit().unwrap_or_default()),
        }
    }
}

/// The commit of the checkout, with `-dirty` if a file has changed since; none outside of one.
fn commit() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"];
    let git = Command::new("git").args(arguments).current_dir(workspace()).output().ok()?;
    let commit = String::from_utf8(git.stdout).ok().filter(|_| git.status.success())?;
    Some(format!(" at commit {}", commit.trim()))
}

/// Milliseconds, to the microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3, 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_exactly_the_fields_that_were_agreed() {
        let row = Row {
            experiment: "closed-loop".into(),
            policy: Policy::LeastRequest,
            frontends: 40,
            backends: 10,
            load: "closed:100".into(),
            service_ms: 50.0,
            requests: 1,
            ok: 1,
            shed: 0,
            errors: 0,
            p10_ms: Some(1.5),
            p50_ms: None,
            p90_ms: None,
            p99_ms: None,
            throughput_rps: 0.0,
            attempts_per_request: 1.0,
            mean_ms: Some(2.5),
            envoy_cpu_ms_per_request: Some(1.25),
            balancing: Some(Choice::TwoChoices),
        };
        let expected = concat!(
            r#"{"experiment":"closed-loop","policy":"least_request","frontends":40,"backends":10,"load":"closed:100","#,
            r#""service_ms":50.0,"requests":1,"ok":1,"shed":0,"errors":0,"p10_ms":1.5,"p50_ms":null,"p90_ms":null,"#,
            r#""p99_ms":null,"throughput_rps":0.0,"attempts_per_request":1.0,"mean_ms":2.5,"envoy_cpu_ms_per_request":1.25,"#,
            r#""balancing":"two_choices"}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Row>(expected).unwrap(), row);
        let fields = r#","mean_ms":2.5,"envoy_cpu_ms_per_request":1.25,"balancing":"two_choices""#;
        let earlier: Row = serde_json::from_str(&expected.replace(fields, "")).unwrap();
        assert_eq!((earlier.mean_ms, earlier.balancing), (None, None), "rows of earlier releases");
        let title =
            |experiment: &str, frontends| Row { experiment: experiment.into(), frontends, ..earlier.clone() }.title();
        assert_eq!(title("closed-loop", 40), "least request, two choices");
        assert_eq!(title("closed-loop", 1), "least request, full scan");
        assert_eq!(title("heterogeneous", 1), "least request, two choices");
        assert_eq!(
            Row { frontends: 1, ..row }.title(),
            "least request, two choices",
            "the row's own `balancing` decides"
        );
    }
}
