//! Which node holds which part of an application.

use crate::message::Ask;
use crate::part::Part;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most nodes of a record.
pub const MOST_NODES: usize = 2_000;
/// How many bytes the entries of a record take as JSON at most. Kubernetes allows 256 KiB (262,144)
/// for all annotations of an object; the rest of the record, and the annotation's name, take 40.
/// 2,000 nodes fit with names of 45 bytes on average.
pub const MOST_BYTES: usize = 260_000;
/// What an entry takes at most beside the name of its node:
/// `"":{"life":,"number":,"part":,"over":},` with two numbers of 16 digits and two parts of 7.
const ENTRY_BYTES: usize = 39 + 2 * 16 + 2 * 7;
/// The largest life, and the largest number: JSON tools keep integers exactly up to here.
pub const MOST_COUNT: u64 = (1 << 53) - 1;

/// What one node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The life of its agent.
    pub life: u64,
    /// How often that has given something.
    pub number: u64,
    /// What it holds.
    pub part: Part,
    /// What its agent says that it holds beyond that, for which there is no room: the record was
    /// lost, or the node was freed too early. It is written so that only a replica that knows the
    /// present record tells the node to lower that.
    #[serde(default, skip_serializing_if = "nothing")]
    pub over: Part,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn nothing(part: &Part) -> bool {
    *part == Part::ZERO
}

/// Which node holds which part of an application.
///
/// A replica refuses a record with fields that it does not know. Written by a later version, they
/// may matter to safety, and a write without them would lose them; until that replica is replaced,
/// it changes nothing, and nodes keep what they hold.
///
/// A clone costs nothing until it changes, and a comparison with it neither: most asks change
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Nobody has looked yet who holds something.
    #[serde(default)]
    new: bool,
    #[serde(serialize_with = "write", deserialize_with = "read")]
    nodes: Arc<Nodes>,
}

/// The entries, and their sums: each ask needs these.
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
    /// A record of an application of which nothing is known.
    pub fn new() -> Self {
        Self { new: true, ..Self::default() }
    }

    /// Whether agents may hold parts that it does not know yet.
    pub const fn is_new(&self) -> bool {
        self.new
    }

    /// All agents had time to say what they hold.
    pub const fn settle(&mut self) {
        self.new = false;
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.nodes.entries.is_empty()
    }

    /// How many bytes its entries take as JSON at most.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.nodes.entries.iter()
    }

    /// What is known of a node.
    pub fn entry(&self, node: &str) -> Option<&Entry> {
        self.nodes.entries.get(node)
    }

    /// What a node holds.
    pub fn part(&self, node: &str) -> Part {
        self.nodes.entries.get(node).map_or(Part::ZERO, |entry| entry.part)
    }

    /// What all hold together.
    pub fn held(&self) -> Part {
        Part::millionths(u32::try_from(self.nodes.held).unwrap_or(u32::MAX))
    }

    /// What nobody holds.
    pub fn free_part(&self) -> Part {
        Part::WHOLE.minus(self.held())
    }

    /// Whether there is no room for one more node.
    fn is_full(&self, node: &str) -> bool {
        self.nodes.entries.len() >= MOST_NODES || self.nodes.bytes + bytes(node) > MOST_BYTES
    }

    /// Takes what an agent says that it holds, which changes only the entry of its node. Returns
    /// false if that was said before what is known, or if there is no room for it.
    pub(crate) fn hear(&mut self, node: &str, life: u64, ask: &Ask) -> bool {
        if life > MOST_COUNT || ask.number > MOST_COUNT {
            return false;
        }
        let asks_nothing = ask.is_nothing();
        let Some(known) = self.entry(node).copied() else {
            if !asks_nothing && self.is_full(node) {
                return false;
            }
            if !asks_nothing {
                let part = ask.part.min(self.free_part());
                self.put(node, Entry { life, number: ask.number, part, over: over(ask, part) });
            }
            return true;
        };
        if (life, ask.number) < (known.life, known.number) {
            return false;
        }
        let mut part = known.part;
        // The first number of a life gives nothing: it was said before all else.
        if ask.number > 0 && (life, ask.number) > (known.life, known.number) {
            part = part.min(ask.part);
        }
        // Only if the record was lost: an older one was put in its place.
        part = part.max(ask.part.min(part.plus(self.free_part())));
        if asks_nothing && part == Part::ZERO {
            self.free(node);
        } else {
            self.put(node, Entry { life, number: ask.number, part, over: over(ask, part) });
        }
        true
    }

    /// A node gets more, as far as there is more.
    pub(crate) fn raise(&mut self, node: &str, to: Part) {
        if let Some(known) = self.entry(node).copied() {
            let part = known.part.max(to.min(known.part.plus(self.free_part())));
            self.put(node, Entry { part, ..known });
        }
    }

    /// A node does not exist any more, and uses nothing.
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

/// How many bytes an entry takes as JSON at most.
fn bytes(node: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    // JSON may need six bytes for another one.
    node.bytes().map(|byte| if plain(byte) { 1 } else { 6 }).sum::<usize>() + ENTRY_BYTES
}

#[cfg(test)]
mod tests;
