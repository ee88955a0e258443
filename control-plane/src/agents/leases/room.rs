//! How many records there may be, and how many per node.

use super::store::{Known, LeaseStore};
use bloc_leases::Record;

/// The most records with an entry of one node, and the most applications remembered because it
/// asked first. A node has 110 pods by default; a compromised one leaves room for others.
pub const MOST_OF_NODE: usize = 200;
/// The most records, empty ones included: nothing deletes them, and a node may begin and leave new
/// ones endlessly. They take some 10 MB in etcd and here.
const MOST_RECORDS: usize = 10_000;
/// The memory for all records and the state of their nodes, by [`cost`]: some 130,000 entries.
const MOST_MEMORY: usize = 32 << 20;
/// The bytes of an entry and of its node's state, without names.
const ENTRY: usize = 200;

/// Whether a node may have an entry in one more record.
pub fn may_begin(store: &dyn LeaseStore, node: &str) -> bool {
    store.records().iter().filter(|(_, record)| record.entry(node).is_some()).count() < MOST_OF_NODE
}

/// Whether a record may replace the known one.
pub fn has_room(store: &dyn LeaseStore, record: &Record, known: &Known) -> bool {
    let (is_new, more) = (known.version.is_none(), cost(record).saturating_sub(cost(&known.record)));
    if !is_new && more == 0 {
        return true;
    }
    let records = store.records();
    let taken: usize = records.iter().map(|(_, record)| cost(record)).sum();
    (!is_new || records.len() < MOST_RECORDS) && taken + more <= MOST_MEMORY
}

/// The memory of a record and of the state of its nodes, in bytes.
fn cost(record: &Record) -> usize {
    record.nodes().map(|(node, _)| 2 * node.len() + ENTRY).sum()
}
