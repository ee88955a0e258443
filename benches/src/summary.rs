//! Criterion's results in one file: `target/bench/summary.json`.
//!
//! Criterion leaves `<group>/<function>/<parameter>/new/` for each bench, with `benchmark.json`
//! (its name), `estimates.json` (nanoseconds for one iteration) and `sample.json` (each sample's
//! iterations and nanoseconds).

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
        /// The cause.
        source: std::io::Error,
    },
    /// A file has unexpected content.
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
    /// Its name, such as `choose/bloc/10`.
    pub name: String,
    /// The median of an iteration, in nanoseconds.
    pub median_ns: f64,
    /// The bounds within which it lies with 95% confidence.
    pub low_ns: f64,
    /// See `low_ns`.
    pub high_ns: f64,
    /// The time of an iteration in the fastest sample, in nanoseconds. Other work on the machine
    /// only makes samples slower, so this varies far less than the median.
    pub least_ns: f64,
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

#[derive(Deserialize)]
struct Samples {
    iters: Vec<f64>,
    times: Vec<f64>,
}

impl Samples {
    fn least_ns(&self) -> f64 {
        self.times.iter().zip(&self.iters).map(|(time, iterations)| time / iterations).fold(f64::INFINITY, f64::min)
    }
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
            least_ns: parse::<Samples>(&directory.join("sample.json"))?.least_ns(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(name: &str, median_ns: f64) -> Bench {
        let (low_ns, high_ns, least_ns) = (median_ns - 1.0, median_ns + 1.0, median_ns - 2.0);
        Bench { name: name.into(), median_ns, low_ns, high_ns, least_ns }
    }

    /// Files as criterion 0.8 writes them, without the fields that are not read.
    fn write(criterion: &Path, directory: &str, id: &str, value: f64) {
        let new = criterion.join(directory).join("new");
        std::fs::create_dir_all(&new).unwrap();
        std::fs::write(new.join("benchmark.json"), format!(r#"{{"group_id":"g","full_id":"{id}"}}"#)).unwrap();
        let interval =
            format!(r#"{{"confidence_level":0.95,"lower_bound":{},"upper_bound":{}}}"#, value - 1.0, value + 1.0);
        let median = format!(r#"{{"confidence_interval":{interval},"point_estimate":{value},"standard_error":0.1}}"#);
        std::fs::write(new.join("estimates.json"), format!(r#"{{"mean":{median},"median":{median},"slope":null}}"#))
            .unwrap();
        let times = [value + 3.0, value * 100.0, (value - 2.0) * 10.0, value + 9.0];
        let samples = format!(r#"{{"sampling_mode":"Flat","iters":[1.0,100.0,10.0,1.0],"times":{times:?}}}"#);
        std::fs::write(new.join("sample.json"), samples).unwrap();
    }

    #[test]
    fn reads_every_bench_in_order_of_name_and_number() {
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
    fn fails_when_there_are_no_results() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(read(empty.path()), Err(SummaryError::Empty(_))));
        assert!(matches!(read(&empty.path().join("none")), Err(SummaryError::File { .. })));
    }
}
