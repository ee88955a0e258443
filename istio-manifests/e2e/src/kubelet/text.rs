//! Text from the API server's answers.

use serde_json::Value;

/// A value as text; empty if it is not a string.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
