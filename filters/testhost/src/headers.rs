//! Header maps as in Envoy: bytes, in order, with lower-case names; names that begin with `:` come
//! first.
//!
//! Envoy keeps some headers in fields of their own ("inline"). There is never a second one of
//! these: an added value is appended to the first, with a comma. `host` is another name of
//! `:authority`.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// Headers that Envoy 1.40 keeps inline, as far as a filter is likely to meet them.
const INLINE: &[&str] = &[
    ":authority",
    ":method",
    ":path",
    ":protocol",
    ":scheme",
    ":status",
    "accept",
    "accept-encoding",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "expect",
    "grpc-accept-encoding",
    "grpc-message",
    "grpc-status",
    "grpc-timeout",
    "keep-alive",
    "location",
    "origin",
    "proxy-connection",
    "referer",
    "server",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "x-envoy-attempt-count",
    "x-envoy-decorator-operation",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address",
    "x-envoy-hedge-on-per-try-timeout",
    "x-envoy-internal",
    "x-envoy-max-retries",
    "x-envoy-original-path",
    "x-envoy-retriable-header-names",
    "x-envoy-retriable-status-codes",
    "x-envoy-retry-grpc-on",
    "x-envoy-retry-on",
    "x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-rq-timeout-ms",
    "x-envoy-upstream-service-time",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-request-id",
];

/// A header map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderMap {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl HeaderMap {
    /// Adds a header at the end; appends to the value if it is an inline header.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (canonical(name.as_ref()), value.as_ref());
        let inline = INLINE.iter().any(|inline| inline.as_bytes() == name);
        if let Some((_, present)) = self.pairs.iter_mut().find(|(known, _)| inline && *known == name) {
            present.push(b',');
            present.extend(value);
            return;
        }
        let place = match name.first() {
            Some(b':') => self.pairs.iter().take_while(|(name, _)| name.first() == Some(&b':')).count(),
            _ => self.pairs.len(),
        };
        self.pairs.insert(place, (name, value.to_vec()));
    }

    /// Sets a header, which moves to the end; replaces all of that name.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.remove(&name);
        self.add(name, value);
    }

    /// Removes all headers of that name; returns whether there were any.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let (name, before) = (canonical(name.as_ref()), self.pairs.len());
        self.pairs.retain(|(known, _)| *known != name);
        before != self.pairs.len()
    }

    /// The first value of that name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = canonical(name.as_ref());
        self.pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_slice())
    }

    /// The first value of that name, if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// All headers in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// The names that begin with `prefix`.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The ABI's format: the count, the sizes, then the names and values, each ended by a zero
    /// byte.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = (self.len() as u32).to_le_bytes().to_vec();
        for (name, value) in self.iter() {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
        }
        for text in self.iter().flat_map(|(name, value)| [name, value]) {
            bytes.extend(text);
            bytes.push(0);
        }
        bytes
    }

    /// Reads the ABI's format; none if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| Some(u32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?) as usize);
        let mut map = Self::default();
        if bytes.is_empty() {
            return Some(map);
        }
        let count = word(0)?;
        let mut text = count.checked_mul(8)?.checked_add(4)?;
        for pair in 0..count {
            let mut part = |size: usize| {
                let part = bytes.get(text..text.checked_add(size)?)?;
                text += size + 1;
                Some(part)
            };
            let (name, value) = (part(word(4 + pair * 8)?)?, part(word(8 + pair * 8)?)?);
            map.add(name, value);
        }
        Some(map)
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for HeaderMap {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut map = Self::default();
        for (name, value) in pairs {
            map.add(name, value);
        }
        map
    }
}

fn canonical(name: &[u8]) -> Vec<u8> {
    let lower = name.to_ascii_lowercase();
    if lower == b"host" { b":authority".to_vec() } else { lower }
}

/// A header map that several contexts use in turn: an attempt sees what the previous one has
/// changed.
#[derive(Clone, Debug, Default)]
pub struct Headers(Rc<RefCell<HeaderMap>>);

impl Headers {
    /// Headers in this order.
    pub fn new(pairs: &[(&str, &str)]) -> Self {
        Self::from(pairs.iter().copied().collect::<HeaderMap>())
    }

    /// Borrows the map.
    pub fn borrow(&self) -> Ref<'_, HeaderMap> {
        self.0.borrow()
    }

    /// Changes the map.
    pub fn edit<T>(&self, work: impl FnOnce(&mut HeaderMap) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }

    /// A copy of the first value of that name, if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.borrow().text(name).map(str::to_owned)
    }
}

impl From<HeaderMap> for Headers {
    fn from(map: HeaderMap) -> Self {
        Self(Rc::new(RefCell::new(map)))
    }
}

impl From<&[(&str, &str)]> for Headers {
    fn from(pairs: &[(&str, &str)]) -> Self {
        Self::new(pairs)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Headers {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self::new(&pairs)
    }
}

impl From<&Headers> for Headers {
    fn from(headers: &Headers) -> Self {
        headers.clone()
    }
}
