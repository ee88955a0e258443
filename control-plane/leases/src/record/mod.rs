//! Which node holds which part of an application's limit.

use crate::message::Ask;
use crate::part::Part;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of nodes in a record.
pub const MOST_NODES: usize = 2_000;
/// The largest size of the entries as JSON. Kubernetes allows 256 KiB (262,144) for all annotations
/// of an object; the rest takes 40. 2,000 nodes fit with names of 45 bytes on average.
pub const MOST_BYTES: usize = 260_000;
/// The largest size of an entry without its node's name: `"":{"life":,"number":,"part":,"over":},`
/// with two numbers of 16 digits and two parts of 7.
const ENTRY_BYTES: usize = 39 + 2 * 16 + 2 * 7;
/// The largest life and number: JSON tools represent integers exactly up to here.
pub const MOST_COUNT: u64 = (1 << 53) - 1;

/// What one node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub life: u64,
    pub number: u64,
    pub part: Part,
    /// What the agent holds beyond `part`, for which there is no room: the record was lost, or the
    /// node was freed too early. It is recorded so that only a replica with the present record
    /// tells the node to lower it.
    #[serde(default, skip_serializing_if = "nothing")]
    pub over: Part,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn nothing(part: &Part) -> bool {
    *part == Part::ZERO
}

/// Which node holds which part of an application's limit.
///
/// A replica refuses a record with unknown fields: they may matter to safety, and a write would
/// lose them. Until that replica is replaced, it changes nothing, and nodes keep what they hold.
///
/// Cloning and comparing with a clone are cheap until one changes: most requests change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    #[serde(default)]
    new: bool,
    #[serde(serialize_with = "write", deserialize_with = "read")]
    nodes: Arc<Nodes>,
}

/// The entries, and their sums, which each request needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Nodes {
    entries: BTreeMap<String, Entry>,
    held: u64,
    bytes: usize,
}

impl Nodes {
    fn insert(&mut self, node: &str, entry: Entry) {
        self.remove(node);
        self.held += u64::from(entry.part.get());
        self.bytes += bytes(node);
        self.entries.insert(node.to_owned(), entry);
    }

    fn remove(&mut self, node: &str) {
        if let Some(entry) = self.entries.remove(node) {
            self.held -= u64::from(entry.part.get());
            self.bytes -= bytes(node);
        }
    }
}

fn write<S: Serializer>(nodes: &Nodes, serializer: S) -> Result<S::Ok, S::Error> {
    nodes.entries.serialize(serializer)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Nodes>, D::Error> {
    let entries = BTreeMap::<String, Entry>::deserialize(deserializer)?;
    let held = entries.values().map(|entry| u64::from(entry.part.get())).sum();
    let bytes = entries.keys().map(|node| bytes(node)).sum();
    Ok(Arc::new(Nodes { entries, held, bytes }))
}

impl Record {
    pub fn new() -> Self {
        Self { new: true, ..Self::default() }
    }

    /// Whether agents may hold parts that are not in it yet.
    pub const fn is_new(&self) -> bool {
        self.new
    }

    /// Call this once all agents have had time to report what they hold.
    pub const fn settle(&mut self) {
        self.new = false;
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.entries.is_empty()
    }

    /// The largest size of its entries as JSON.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.nodes.entries.iter()
    }

    pub fn entry(&self, node: &str) -> Option<&Entry> {
        self.nodes.entries.get(node)
    }

    pub fn part(&self, node: &str) -> Part {
        self.nodes.entries.get(node).map_or(Part::ZERO, |entry| entry.part)
    }

    /// What all nodes hold together.
    pub fn held(&self) -> Part {
        Part::millionths(u32::try_from(self.nodes.held).unwrap_or(u32::MAX))
    }

    pub fn free_part(&self) -> Part {
        Part::WHOLE.minus(self.held())
    }

    /// Updates a node's entry. Returns false if the request is outdated or there is no room.
    pub(crate) fn receive(&mut self, node: &str, life: u64, ask: &Ask) -> bool {
        if life > MOST_COUNT || ask.number > MOST_COUNT {
            return false;
        }
        let asks_nothing = ask.is_nothing();
        let Some(known) = self.entry(node).copied() else {
            let is_full = self.nodes.entries.len() >= MOST_NODES || self.nodes.bytes + bytes(node) > MOST_BYTES;
            if !asks_nothing && !is_full {
                let part = ask.part.min(self.free_part());
                self.put(node, Entry { life, number: ask.number, part, over: over(ask, part) });
            }
            return asks_nothing || self.entry(node).is_some();
        };
        if (life, ask.number) < (known.life, known.number) {
            return false;
        }
        let mut part = known.part;
        // The first number of a life precedes all of its falls.
        if ask.number > 0 && (life, ask.number) > (known.life, known.number) {
            part = part.min(ask.part);
        }
        // This raises a part only after the record was lost and an older one restored.
        part = part.max(ask.part.min(part.plus(self.free_part())));
        if asks_nothing && part == Part::ZERO {
            self.free(node);
        } else {
            self.put(node, Entry { life, number: ask.number, part, over: over(ask, part) });
        }
        true
    }

    /// Gives a node more, as far as the limit has room.
    pub(crate) fn raise(&mut self, node: &str, to: Part) {
        if let Some(known) = self.entry(node).copied() {
            let part = known.part.max(to.min(known.part.plus(self.free_part())));
            self.put(node, Entry { part, ..known });
        }
    }

    /// The node must no longer exist, or must use nothing.
    pub fn free(&mut self, node: &str) {
        if self.nodes.entries.contains_key(node) {
            Arc::make_mut(&mut self.nodes).remove(node);
        }
    }

    fn put(&mut self, node: &str, entry: Entry) {
        if self.entry(node) != Some(&entry) {
            Arc::make_mut(&mut self.nodes).insert(node, entry);
        }
    }
}

fn over(ask: &Ask, part: Part) -> Part {
    ask.part.min(Part::WHOLE).minus(part)
}

/// The largest size of an entry as JSON.
fn bytes(node: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    // Other bytes may need six.
    node.bytes().map(|byte| if plain(byte) { 1 } else { 6 }).sum::<usize>() + ENTRY_BYTES
}

#[cfg(test)]
mod tests;
