//! Where records are kept.

use bloc_leases::{MOST_NODES, Part, Record};
use futures_util::future::BoxFuture;
use std::fmt::Debug;
use std::sync::Arc;

/// Keeps a record of each application, and writes one only if nobody else has written it since it
/// was read (compare-and-swap).
pub trait LeaseStore: Debug + Send + Sync {
    /// Whether all records were read once. Before that, nothing may be said.
    fn is_ready(&self) -> bool;

    /// The record that is known of an application: at least as new as the last one that was read or
    /// written here. An application without one has a [new](Record::new) record without a version.
    ///
    /// # Errors
    /// If there is one that cannot be used.
    fn read(&self, app: &str) -> Result<Known, Unread>;

    /// Writes the record of an application in place of that version.
    fn write(&self, app: Arc<str>, record: Record, version: Option<String>) -> Writing<'_>;

    /// All records that can be used.
    fn records(&self) -> Vec<(Arc<str>, Arc<Record>)>;

    /// How many records cannot be used.
    fn unread(&self) -> usize;

    /// Whether a node exists. A store that does not know says yes.
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

/// There is a record, but it cannot be used. It is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// Why a record was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritten {
    /// Somebody else has written it.
    #[error("another replica has written it meanwhile")]
    Conflict,
    /// It may be written, or not.
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
        return Err(format!("{path}.nodes: {count} entries are not allowed; allowed: {MOST_NODES} at most"));
    }
    if held > u64::from(Part::WHOLE.get()) {
        let most = Part::WHOLE.get();
        return Err(format!("{path}.nodes: parts of {held} together are not allowed; allowed: {most} at most"));
    }
    Ok(record)
}
