//! Parses YAML that people write.

use bloc_policy::config::ConfigError;
use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Spanned, UserMessageFormatter, options};
use std::collections::HashSet;

/// Parses `T` from YAML.
///
/// The YAML is first read as plain values, then by the schema that the filters use for JSON. Both
/// formats thus accept the same input and give the same errors. An error has the position of the
/// refused value if it can be found.
///
/// # Errors
/// [`ConfigError::Malformed`] for text that is not YAML of that schema, or that has a duplicate
/// key.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    fit(values(text)?, text)
}

/// Parses one document as plain values.
///
/// # Errors
/// [`ConfigError::Malformed`] for text that is not YAML, or that has a duplicate key.
pub fn values(text: &str) -> Result<Value, ConfigError> {
    serde_saphyr::from_str_with_options::<Node>(text, options()).map(Value::from).map_err(malformed)
}

/// Reads `T` from `values`, which are all or some of the values in `text`.
///
/// # Errors
/// [`ConfigError`] with the path of the first value that does not fit and, if it can be found, its
/// position in `text`.
pub fn fit<T: DeserializeOwned>(values: Value, text: &str) -> Result<T, ConfigError> {
    let is_empty = values.is_null();
    serde_path_to_error::deserialize(values).map_err(|error| {
        let (path, reason) = (error.path(), error.inner().to_string());
        let place = place(text, path, reason.starts_with("unknown field"))
            .map(|place| format!(" at {place}"))
            .unwrap_or_default();
        let name = path.to_string();
        if is_empty {
            return ConfigError::malformed(".", reason.replacen("invalid type: null", "the text is empty", 1));
        }
        let mut segments = path.iter();
        let is_of_services = matches!(segments.next(), Some(Segment::Map { key }) if key == "services");
        if reason.starts_with("invalid type: null") && is_of_services && segments.count() == 1 {
            let allowed = format!("a mapping, {{}} for the defaults{place}");
            return ConfigError::out_of_range(name, "null", allowed);
        }
        ConfigError::malformed(name, format!("{reason}{place}"))
    })
}

/// Parses several documents as plain values, without the empty ones.
///
/// # Errors
/// [`ConfigError::Malformed`] for text that is not YAML.
pub fn documents(text: &str) -> Result<Vec<Value>, ConfigError> {
    let documents: Vec<Node> = serde_saphyr::from_multiple_with_options(text, options()).map_err(malformed)?;
    Ok(documents.into_iter().map(Value::from).filter(|document| !document.is_null()).collect())
}

fn malformed(error: serde_saphyr::Error) -> ConfigError {
    ConfigError::malformed(".", error.render_with_formatter(&UserMessageFormatter))
}

fn options() -> serde_saphyr::Options {
    options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        // As text, the value is refused under its name. As a number it would become JSON's null,
        // which means the default.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // A refusal has to fit on one line of the log.
        with_snippet: false,
    }
}

/// The position in `text` of the value at `path`, or of its key if `named` or if the value is null,
/// such as `line 3, column 5`.
fn place(text: &str, path: &Path, named: bool) -> Option<String> {
    let Spanned { value: mut node, referenced: mut at, .. } =
        serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options()).ok()?;
    for segment in path {
        let Spanned { value, referenced, .. } = match (segment, node) {
            (Segment::Map { key }, Node::Mapping(entries)) => {
                let (name, value) = entries.into_iter().find(|(name, _)| name.value == *key)?;
                at = name.referenced;
                value
            }
            (Segment::Seq { index }, Node::Sequence(values)) => values.into_iter().nth(*index)?,
            _ => break,
        };
        if !named && !matches!(value, Node::Scalar(Value::Null)) {
            at = referenced;
        }
        node = value;
    }
    Some(format!("line {}, column {}", at.line(), at.column()))
}

/// A YAML tree with positions. A mapping has each key once: to the parser, `80` and `"80"` differ.
enum Node {
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
    Sequence(Vec<Spanned<Node>>),
    Scalar(Value),
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node {
            Node::Mapping(all) => all.into_iter().map(|(name, node)| (name.value, Self::from(node.value))).collect(),
            Node::Sequence(all) => all.into_iter().map(|node| Self::from(node.value)).collect(),
            Node::Scalar(value) => value,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

/// Takes these kinds of scalars.
macro_rules! scalars {
    ($($visit:ident: $kind:ty,)*) => {
        $(fn $visit<E>(self, value: $kind) -> Result<Node, E> {
            Ok(Node::Scalar(value.into()))
        })*
    };
}

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let (mut entries, mut names) = (Vec::new(), HashSet::new());
        while let Some((name, value)) = map.next_entry::<Spanned<String>, _>()? {
            if !names.insert(name.value.clone()) {
                let (line, column) = (name.referenced.line(), name.referenced.column());
                let twice = format_args!("duplicate mapping key: {} at line {line}, column {column}", name.value);
                return Err(A::Error::custom(twice));
            }
            entries.push((name, value));
        }
        Ok(Node::Mapping(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Node::Sequence(values))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    scalars! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, }
}
