//! Reads YAML that people write.

use bloc_policy::config::ConfigError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, UserMessageFormatter, options};

/// Reads `T` out of YAML.
///
/// The YAML is read as plain values first and these by the one schema that the filters use for JSON, so that both accept
/// and say the same; where in the text a refused value stands is added if it can be found.
///
/// # Errors
/// [`ConfigError::Malformed`] for what is not YAML of that schema, a name given twice included.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    let values: Value = serde_saphyr::from_str_with_options(text, options()).map_err(malformed)?;
    serde_path_to_error::deserialize(values).map_err(|error| {
        let place = place_of_refusal::<T>(text).map(|place| format!(" at {place}")).unwrap_or_default();
        ConfigError::Malformed { path: error.path().to_string(), reason: format!("{}{place}", error.inner()) }
    })
}

/// Reads a text of several documents as plain values, the empty ones left out.
///
/// # Errors
/// [`ConfigError::Malformed`] for what is not YAML.
pub fn documents(text: &str) -> Result<Vec<Value>, ConfigError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options()).map_err(malformed)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn malformed(error: serde_saphyr::Error) -> ConfigError {
    ConfigError::Malformed { path: ".".to_owned(), reason: error.render_with_formatter(&UserMessageFormatter) }
}

fn options() -> serde_saphyr::Options {
    options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        // As text it is refused under its name; as a number it would become JSON's null and with that the default.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // A refusal is one line of the log.
        with_snippet: false,
    }
}

/// Where reading straight into the schema stops, as `line 3, column 5`; `None` where YAML's own reading is more lenient.
fn place_of_refusal<T: DeserializeOwned>(text: &str) -> Option<String> {
    let error = serde_saphyr::from_str_with_options::<T>(text, options()).err()?;
    error.location().map(|at| format!("line {}, column {}", at.line(), at.column()))
}
