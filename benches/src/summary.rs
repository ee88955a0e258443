//! What criterion has written, in one file: `target/bench/summary.json`.
//!
//! Criterion leaves `<group>/<function>/<parameter>/new/` for each bench, with `benchmark.json` (what it is called) and `estimates.json` (nanoseconds for one iteration).

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// Nothing was measured.
    #[error("{0} holds no results: run make bench")]
    Empty(PathBuf),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It holds something else than expected.
    #[error("{path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// One bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// What it is called, such as `choose/bloc/10`.
    pub name: String,
    /// The median of an iteration, in nanoseconds.
    pub median_ns: f64,
    /// The bounds within which it lies with 95% confidence.
    pub low_ns: f64,
    /// See `low_ns`.
    pub high_ns: f64,
}

/// A ratio or a time that must not be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// What it is.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// What it must not exceed.
    pub most: f64,
}

#[derive(Deserialize)]
struct Named {
    full_id: String,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    confidence_interval: Interval,
    point_estimate: f64,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// All benches under criterion's directory, by name.
///
/// # Errors
/// There are none, or a file is not what criterion writes.
pub fn read(criterion: &Path) -> Result<Vec<Bench>, SummaryError> {
    let mut benches = Vec::new();
    collect(criterion, &mut benches)?;
    if benches.is_empty() {
        return Err(SummaryError::Empty(criterion.to_owned()));
    }
    benches.sort_by(|a, b| order(&a.name).cmp(&order(&b.name)));
    Ok(benches)
}

/// Numbers at the end count as numbers: `choose/mu/3` comes before `choose/mu/10`.
fn order(name: &str) -> (&str, u64) {
    match name.rsplit_once('/').and_then(|(front, last)| Some((front, last.parse().ok()?))) {
        Some(parts) => parts,
        None => (name, 0),
    }
}

fn collect(directory: &Path, benches: &mut Vec<Bench>) -> Result<(), SummaryError> {
    let failed = |source| SummaryError::File { path: directory.to_owned(), source };
    if directory.file_name().is_some_and(|name| name == "new") {
        let named: Named = parse(&directory.join("benchmark.json"))?;
        let Estimate { point_estimate, confidence_interval } =
            parse::<Estimates>(&directory.join("estimates.json"))?.median;
        benches.push(Bench {
            name: named.full_id,
            median_ns: point_estimate,
            low_ns: confidence_interval.lower_bound,
            high_ns: confidence_interval.upper_bound,
        });
        return Ok(());
    }
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, benches)?;
        }
    }
    Ok(())
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, SummaryError> {
    let text = std::fs::read(path).map_err(|source| SummaryError::File { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| SummaryError::Content { path: path.to_owned(), source })
}

/// What must not be exceeded, as far as it was measured.
pub fn bounds(benches: &[Bench]) -> Vec<Bound> {
    let time = |name: &str| benches.iter().find(|bench| bench.name == name).map(|bench| bench.median_ns);
    let growth = |routing: &str| {
        let value = time(&format!("choose/{routing}/1000"))? / time(&format!("choose/{routing}/10"))?;
        Some(Bound { what: format!("choice among 1,000 servers over choice among 10, {routing}"), value, most: 1.5 })
    };
    let mu = time("choose/mu/1000").map(|nanos| nanos / 1e3);
    let mu =
        mu.map(|value| Bound { what: "Mu's choice among 1,000 servers, in microseconds".into(), value, most: 5.0 });
    ["bloc", "bid", "least_request"].into_iter().filter_map(growth).chain(mu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(name: &str, median_ns: f64) -> Bench {
        Bench { name: name.into(), median_ns, low_ns: median_ns - 1.0, high_ns: median_ns + 1.0 }
    }

    /// As criterion 0.8 writes them, without the fields that are not read.
    fn write(criterion: &Path, directory: &str, id: &str, median: f64) {
        let new = criterion.join(directory).join("new");
        std::fs::create_dir_all(&new).unwrap();
        std::fs::write(new.join("benchmark.json"), format!(r#"{{"group_id":"g","full_id":"{id}"}}"#)).unwrap();
        let interval =
            format!(r#"{{"confidence_level":0.95,"lower_bound":{},"upper_bound":{}}}"#, median - 1.0, median + 1.0);
        let median = format!(r#"{{"confidence_interval":{interval},"point_estimate":{median},"standard_error":0.1}}"#);
        std::fs::write(new.join("estimates.json"), format!(r#"{{"mean":{median},"median":{median},"slope":null}}"#))
            .unwrap();
    }

    #[test]
    fn every_bench_is_found_and_they_are_in_order() {
        let criterion = tempfile::tempdir().unwrap();
        for (directory, id, median) in
            [("choose/mu/10", "choose/mu/10", 200.0), ("choose/mu/3", "choose/mu/3", 100.0), ("a/b", "a/b", 5.0)]
        {
            write(criterion.path(), directory, id, median);
        }
        std::fs::create_dir_all(criterion.path().join("choose/mu/3/base")).unwrap();
        let expected = [bench("a/b", 5.0), bench("choose/mu/3", 100.0), bench("choose/mu/10", 200.0)];
        assert_eq!(read(criterion.path()).unwrap(), expected);
        assert!(order("choose/mu/3") < order("choose/mu/10") && order("choose/bloc/10") < order("choose/mu/3"));
        std::fs::write(criterion.path().join("a/b/new/estimates.json"), "{}").unwrap();
        assert!(matches!(read(criterion.path()), Err(SummaryError::Content { .. })));
    }

    #[test]
    fn without_results_there_is_no_summary() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(read(empty.path()), Err(SummaryError::Empty(_))));
        assert!(matches!(read(&empty.path().join("none")), Err(SummaryError::File { .. })));
    }

    #[test]
    fn bounds_are_ratios_within_a_run() {
        let benches = [
            bench("choose/bloc/10", 100.0),
            bench("choose/bloc/1000", 130.0),
            bench("choose/mu/10", 100.0),
            bench("choose/mu/1000", 5_500.0),
        ];
        let values: Vec<(f64, f64)> = bounds(&benches).iter().map(|bound| (bound.value, bound.most)).collect();
        assert_eq!(values, [(1.3, 1.5), (5.5, 5.0)]);
    }
}
