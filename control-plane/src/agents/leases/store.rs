//! Where records are kept.

use bloc_leases::{MOST_NODES, Part, Record};
use futures_util::future::BoxFuture;
use std::fmt::Debug;
use std::sync::Arc;

/// Keeps a record per application, and writes one only if nobody else has written it since it was
/// read (compare-and-swap).
pub trait LeaseStore: Debug + Send + Sync {
    /// Whether all records were read once. Before that, no ask may be answered.
    fn is_ready(&self) -> bool;

    /// The known record of an application: at least as new as the last one read or written here. An
    /// application without a record has a [new](Record::new) one without a version.
    ///
    /// # Errors If the record cannot be used.
    fn read(&self, app: &str) -> Result<Known, Unread>;

    /// Replaces that version of an application's record.
    fn write(&self, app: Arc<str>, record: Record, version: Option<String>) -> Writing<'_>;

    /// All usable records.
    fn records(&self) -> Vec<(Arc<str>, Arc<Record>)>;

    /// The number of unusable records.
    fn unread(&self) -> usize;

    /// Whether a node exists. A store that does not know returns true.
    fn has_node(&self, node: String) -> BoxFuture<'_, Result<bool, String>>;
}

pub type Writing<'a> = BoxFuture<'a, Result<(), Unwritten>>;

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Known {
    pub record: Arc<Record>,
    /// Its version; none: there is no record.
    pub version: Option<String>,
}

impl Default for Known {
    fn default() -> Self {
        Self { record: Arc::new(Record::new()), version: None }
    }
}

/// The record exists but is unusable. It is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// Why a record was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritten {
    /// Somebody else has written it.
    #[error("another replica has written it in the meantime")]
    Conflict,
    /// It may or may not have been written.
    #[error("{0}")]
    Failed(String),
}

/// Reads a record that somebody may have edited.
///
/// # Errors
/// With path, value and what is allowed.
pub fn parse(path: &str, text: &str) -> Result<Record, String> {
    let record: Record =
        bloc_policy::config::ConfigError::read_json(text.as_bytes()).map_err(|error| error.under(path).to_string())?;
    check(path, record)
}

/// Checks a record that somebody may have edited.
///
/// # Errors
/// With path, value and what is allowed.
pub fn check(path: &str, record: Record) -> Result<Record, String> {
    let (count, held) =
        (record.nodes().count(), record.nodes().map(|(_, entry)| u64::from(entry.part.get())).sum::<u64>());
    if count > MOST_NODES {
        return Err(format!("{path}.nodes: {count} entries are not allowed; allowed: at most {MOST_NODES}"));
    }
    if held > u64::from(Part::WHOLE.get()) {
        let most = Part::WHOLE.get();
        return Err(format!("{path}.nodes: a sum of parts of {held} is not allowed; allowed: at most {most}"));
    }
    Ok(record)
}
