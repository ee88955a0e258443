//! Gates: the costs that do not depend on the machine, and the record that they must not exceed.
//!
//! - Host calls per request must not rise at all. They do not depend on the compiler.
//! - Instructions per request (fuel) must not rise by more than [`TOLERANCE`]. They depend on the
//!   compiler that built the module, so the record has an entry for each compiler. The module names
//!   its compiler in the paths of the standard library's panics. A compiler without an entry is
//!   compared with the most expensive entry, with [`FOREIGN_TOLERANCE`].
//! - The module must not be larger than [`MOST_BYTES`].

use crate::module::{Compile, Module, ModuleError, just_built};
use crate::steady::{REQUESTS, ROUTINGS, Steady, SteadyPath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By how much fuel may exceed the record of the same compiler.
pub const TOLERANCE: f64 = 0.05;
/// By how much fuel may exceed the most expensive record, if the module's compiler has none.
pub const FOREIGN_TOLERANCE: f64 = 0.25;
/// The most bytes that the module may have.
pub const MOST_BYTES: usize = 900 * 1024;
/// The command that makes a new record.
pub const HOW_TO_RECORD: &str = "cargo run -p bloc-testhost --example gates -- record";

/// A number for each filter of each routing, for example `bloc`, `outbound`.
type Table = BTreeMap<String, BTreeMap<String, u64>>;

/// The record: benches/record/gates.json.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The number of requests that all numbers are for.
    pub requests: u64,
    /// Host calls.
    pub host_calls: Table,
    /// Fuel, by compiler.
    pub fuel: BTreeMap<String, Table>,
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The compiler that built the module.
    pub compiler: String,
    /// The size of the module in bytes.
    pub bytes: usize,
    /// Costs by routing.
    pub costs: BTreeMap<String, Steady>,
}

impl Measured {
    /// Measures the module that was just built.
    ///
    /// # Errors
    /// There is no up-to-date module.
    pub fn just_built() -> Result<Self, ModuleError> {
        Self::from_file(&just_built()?)
    }

    /// Measures the module in a file, whatever its age.
    ///
    /// # Errors
    /// It is missing or not valid.
    pub fn from_file(file: &Path) -> Result<Self, ModuleError> {
        let bytes = std::fs::read(file).map_err(|_| ModuleError::Missing(file.to_owned()))?;
        let module = Module::new(&bytes, Compile::Metered)?;
        let cost = |routing: &&str| ((*routing).to_owned(), SteadyPath::new(&module, routing).measure());
        let costs = ROUTINGS.iter().map(cost).collect();
        Ok(Self { compiler: compiler(&bytes), bytes: bytes.len(), costs })
    }

    fn table(&self, number: impl Fn(&crate::Cost) -> u64) -> Table {
        let row = |steady: &Steady| steady.parts().map(|(part, cost)| (part.to_owned(), number(cost))).into();
        self.costs.iter().map(|(routing, steady)| (routing.clone(), row(steady))).collect()
    }

    /// Host calls by routing and filter.
    pub fn host_calls(&self) -> Table {
        self.table(crate::Cost::calls)
    }

    /// Fuel by routing and filter.
    pub fn fuel(&self) -> Table {
        self.table(crate::Cost::fuel)
    }

    /// The record with this measurement added; entries of other compilers stay.
    pub fn recorded_in(&self, mut record: Record) -> Record {
        (record.requests, record.host_calls) = (REQUESTS, self.host_calls());
        record.fuel.insert(self.compiler.clone(), self.fuel());
        record
    }

    /// What exceeds the record, as text; empty if nothing does.
    pub fn excess(&self, record: &Record) -> Vec<String> {
        let mut excess = Vec::new();
        if self.bytes > MOST_BYTES {
            excess.push(format!("the module has {} bytes, more than {MOST_BYTES}", self.bytes));
        }
        let per_request = |sum: u64| sum as f64 / REQUESTS as f64;
        for (name, calls) in cells(&self.host_calls()) {
            let most = cell(&record.host_calls, &name);
            if most.is_none_or(|most| calls > most) {
                let most = most.map_or("none".to_owned(), |most| per_request(most).to_string());
                excess.push(format!("{name}: {} host calls a request, on record {most}", per_request(calls)));
            }
        }
        let own = record.fuel.get(&self.compiler);
        let tolerance = if own.is_some() { TOLERANCE } else { FOREIGN_TOLERANCE };
        for (name, fuel) in cells(&self.fuel()) {
            let recorded = own.map_or_else(
                || record.fuel.values().filter_map(|table| cell(table, &name)).max(),
                |table| cell(table, &name),
            );
            if recorded.is_none_or(|recorded| fuel as f64 > recorded as f64 * (1.0 + tolerance)) {
                let (fuel, recorded) = (per_request(fuel), recorded.map(per_request));
                let recorded = recorded.map_or("none".to_owned(), |recorded| format!("{recorded:.0}"));
                let percent = tolerance * 100.0;
                excess.push(format!(
                    "{name}: {fuel:.0} instructions a request, on record {recorded} (+{percent:.0}% allowed)"
                ));
            }
        }
        excess
    }
}

/// The path of the record.
pub fn record_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/record/gates.json")
}

fn cells(table: &Table) -> impl Iterator<Item = (String, u64)> {
    table.iter().flat_map(|(routing, row)| row.iter().map(move |(part, value)| (format!("{routing} {part}"), *value)))
}

fn cell(table: &Table, name: &str) -> Option<u64> {
    let (routing, part) = name.split_once(' ')?;
    table.get(routing)?.get(part).copied()
}

/// The compiler that built the module: the commit of its standard library, or a note that this was
/// built from source.
fn compiler(module: &[u8]) -> String {
    const MARK: &[u8] = b"/rustc/";
    const COMMIT: usize = 40;
    let commits = module.windows(MARK.len() + COMMIT).filter_map(|window| window.strip_prefix(MARK));
    let mut commits = commits.filter(|commit| commit.iter().all(u8::is_ascii_hexdigit));
    let commit = commits.next().map(|commit| String::from_utf8_lossy(commit).into_owned());
    commit.unwrap_or_else(|| "standard library built from source".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;

    fn measured(compiler: &str, calls: u64, fuel: u64) -> Measured {
        let cost = Cost {
            callbacks: [("proxy_on_request_headers", (1, fuel))].into(),
            host_calls: [("proxy_log", calls)].into(),
            ..Cost::default()
        };
        let steady = Steady { outbound: cost.clone(), attempt: Cost::default(), inbound: Cost::default() };
        Measured { compiler: compiler.to_owned(), bytes: 1, costs: [("bloc".to_owned(), steady)].into() }
    }

    #[test]
    fn reports_only_costs_that_exceed_the_record() {
        let record = measured("a", 400, 100_000).recorded_in(Record::default());
        assert_eq!(measured("a", 400, 105_000).excess(&record), Vec::<String>::new());
        assert_eq!(measured("a", 300, 1).excess(&record), Vec::<String>::new());
        assert_eq!(measured("a", 401, 1).excess(&record), ["bloc outbound: 1.0025 host calls a request, on record 1"]);
        let dear = measured("a", 400, 105_001).excess(&record);
        assert_eq!(dear, ["bloc outbound: 263 instructions a request, on record 250 (+5% allowed)"]);
        assert_eq!(measured("b", 400, 125_000).excess(&record), Vec::<String>::new(), "another compiler");
        assert_eq!(measured("b", 400, 125_001).excess(&record).len(), 1);
        let large = Measured { bytes: MOST_BYTES + 1, ..measured("a", 400, 100_000) };
        assert_eq!(large.excess(&record).len(), 1);
        assert_eq!(measured("a", 1, 1).excess(&Record::default()).len(), 6, "without a record nothing passes");
    }

    #[test]
    fn reads_the_compiler_from_the_module() {
        let commit = "59807616e1fa2540724bfbac14d7976d7e4a3860";
        assert_eq!(compiler(format!("xx/rustc/{commit}/library/core/x").as_bytes()), commit);
        assert_eq!(compiler(b"/usr/lib/rustlib/src/rust/library/core"), "standard library built from source");
    }
}
