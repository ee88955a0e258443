//! The parameters of a question.

use axum::extract::Query;
use axum::http::Uri;
use bloc_policy::config::ConfigError;
use std::time::Duration;

/// The longest time for which an answer is held.
const MOST_WAIT: Duration = Duration::from_secs(60);
/// The most cores that a sidecar believes.
const MOST_CORES: f64 = 1e5;

/// What a sidecar has, and for how long it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Question {
    /// What it has from here; none: nothing.
    pub(super) cores: Option<f64>,
    /// How long the answer may be held.
    pub(super) wait: Duration,
}

impl Question {
    /// Reads the query. Parameters that are not known here are passed over: a newer module may have
    /// them.
    ///
    /// # Errors
    /// The first value that is not allowed, with its path and the allowed range.
    pub(super) fn read(uri: &Uri) -> Result<Self, ConfigError> {
        let refused = |path: &str, value: &str, allowed: &str| ConfigError::OutOfRange {
            path: path.to_owned(),
            value: format!("{value:?}"),
            allowed: allowed.to_owned(),
        };
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(parameters) =
            query.map_err(|_| refused("query", uri.query().unwrap_or_default(), "name=value&name=value"))?;
        let mut question = Self::default();
        for (name, value) in &parameters {
            match name.as_str() {
                "cores" => {
                    let cores = value.parse().ok().filter(|cores| *cores > 0.0 && *cores <= MOST_CORES);
                    let allowed = "a number above 0, at most 100000";
                    question.cores = Some(cores.ok_or_else(|| refused("cores", value, allowed))?);
                }
                "wait" => {
                    let wait = humantime::parse_duration(value).ok().filter(|wait| *wait <= MOST_WAIT);
                    let allowed = "a duration with its unit (such as 10s), 0s to 60s";
                    question.wait = wait.ok_or_else(|| refused("wait", value, allowed))?;
                }
                _ => {}
            }
        }
        Ok(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Question, String> {
        let uri: Uri = format!("/v1/self{query}").parse().unwrap();
        Question::read(&uri).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_what_the_module_sends_and_passes_over_what_it_does_not_know() {
        let question = |cores, millis| Ok(Question { cores, wait: Duration::from_millis(millis) });
        for (query, expected) in [
            ("", question(None, 0)),
            ("?", question(None, 0)),
            ("?wait=10s", question(None, 10_000)),
            ("?cores=0.8&wait=10s", question(Some(0.8), 10_000)),
            ("?wait=1s%20500ms&cores=1e-3", question(Some(0.001), 1_500)),
            ("?later=1&cores=100000&wait=60s", question(Some(1e5), 60_000)),
            ("?wait=1m", question(None, 60_000)),
            ("?wait=0s", question(None, 0)),
        ] {
            assert_eq!(read(query), expected, "{query}");
        }
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        for cores in ["", "0", "-1", "NaN", "inf", "100000.5", "1m", "0x1"] {
            let expected = format!("cores: {cores:?} is not allowed; allowed: a number above 0, at most 100000");
            assert_eq!(read(&format!("?wait=1s&cores={cores}")), Err(expected));
        }
        for wait in ["", "10", "-1s", "61s", "60s1ns", "1x", "10 s s"] {
            let allowed = "a duration with its unit (such as 10s), 0s to 60s";
            let expected = format!("wait: {wait:?} is not allowed; allowed: {allowed}");
            assert_eq!(read(&format!("?cores=1&wait={}", wait.replace(' ', "%20"))), Err(expected));
        }
    }
}
