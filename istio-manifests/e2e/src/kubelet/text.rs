//! Text out of what the API server says.

use serde_json::Value;

/// A value as text; empty if it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
