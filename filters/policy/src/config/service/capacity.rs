//! Where the capacity of a server comes from, as people write it.

use super::parameters::CapacityParameters;
use crate::config::error::ConfigError;
use crate::config::ranges::integer;
use crate::config::ranges::{HOUR, MILLISECOND, duration};
use crate::units::Concurrency;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const DEFAULT_AVERAGE_INTERVAL: Duration = Duration::from_secs(30); // paper, 5.4.4
const MOST_PER_CORE: f64 = 1e5;

/// Where the capacity of an endpoint comes from, as written by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
pub enum CapacitySpec {
    /// A fixed number of requests.
    Static {
        /// Requests in flight at most; 1 to 1,000,000.
        limit: i64,
    },
    /// A number of requests for each core that the application has.
    PerCore {
        /// Requests in flight for each core; above 0, at most 100,000.
        per_core: f64,
        /// Requests in flight at most, and while the CPU is not known; 1 to 1,000,000.
        limit: Option<i64>,
    },
    /// The mean number of requests in flight (the paper's estimator; it can only fall).
    Average {
        /// How long a mean is taken over; `1s` to `1h`, default `30s`.
        interval: Option<String>,
    },
    /// As many as the measured service rate finishes within the SLO.
    Slo {
        /// The response time to be met; `1ms` to `1h`.
        slo: String,
    },
}

/// The same as it is written: `static` has a limit, or a number for each core, or both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CapacitySpec"))]
#[serde(
    tag = "estimator",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    deny_unknown_fields,
    expecting = "a mapping"
)]
enum Written {
    /// A fixed number of requests, or one for each core that the application has.
    Static {
        /// Requests in flight at most; 1 to 1,000,000. Without `perCore` it must be there; with it,
        /// it also applies while the CPU is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
        limit: Option<i64>,
        /// Requests in flight for each core that the application has, as the node agent says; above
        /// 0, at most 100,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100_000)))]
        per_core: Option<f64>,
    },
    /// The mean number of requests in flight (the paper's estimator; it can only fall).
    Average {
        /// How long a mean is taken over; `1s` to `1h`, default `30s`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(regex(pattern = crate::config::ranges::DURATION)))]
        interval: Option<String>,
    },
    /// As many as the measured service rate finishes within the SLO.
    Slo {
        /// The response time to be met; `1ms` to `1h`.
        #[cfg_attr(feature = "schema", schemars(regex(pattern = crate::config::ranges::DURATION)))]
        slo: String,
    },
}

impl TryFrom<Written> for CapacitySpec {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        Ok(match written {
            Written::Static { limit, per_core: Some(per_core) } => Self::PerCore { per_core, limit },
            Written::Static { limit: Some(limit), per_core: None } => Self::Static { limit },
            Written::Static { limit: None, per_core: None } => {
                return Err("`static` needs `limit`, `perCore` or both");
            }
            Written::Average { interval } => Self::Average { interval },
            Written::Slo { slo } => Self::Slo { slo },
        })
    }
}

impl From<CapacitySpec> for Written {
    fn from(spec: CapacitySpec) -> Self {
        match spec {
            CapacitySpec::Static { limit } => Self::Static { limit: Some(limit), per_core: None },
            CapacitySpec::PerCore { per_core, limit } => Self::Static { limit, per_core: Some(per_core) },
            CapacitySpec::Average { interval } => Self::Average { interval },
            CapacitySpec::Slo { slo } => Self::Slo { slo },
        }
    }
}

impl CapacitySpec {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is not allowed, its path relative to this spec.
    pub(super) fn validate(&self) -> Result<CapacityParameters, ConfigError> {
        let requests = |limit| integer("limit", Some(limit), 1, 1, 1_000_000).map(Concurrency::new);
        match self {
            Self::Static { limit } => requests(*limit).map(CapacityParameters::Static),
            Self::PerCore { per_core, limit } => {
                if !(*per_core > 0.0 && *per_core <= MOST_PER_CORE) {
                    let allowed = "a number above 0 and at most 100000";
                    return Err(ConfigError::out_of_range("perCore".into(), per_core, allowed));
                }
                let limit = limit.map(requests).transpose()?;
                Ok(CapacityParameters::PerCore { per_core: *per_core, limit })
            }
            Self::Average { interval } => {
                let least = Duration::from_secs(1);
                duration("interval", interval.as_deref(), DEFAULT_AVERAGE_INTERVAL, least, HOUR)
                    .map(CapacityParameters::Average)
            }
            Self::Slo { slo } => duration("slo", Some(slo), HOUR, MILLISECOND, HOUR).map(CapacityParameters::Slo),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<CapacityParameters, String> {
        let spec: CapacitySpec = ConfigError::read_json(json.as_bytes()).map_err(|error| error.to_string())?;
        let written = serde_json::to_value(&spec).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(json).unwrap(), "as it was written");
        spec.validate().map_err(|error| error.to_string())
    }

    #[test]
    fn a_static_capacity_has_a_limit_or_a_number_for_each_core_or_both() {
        let limit = Concurrency::new(10);
        for (json, expected) in [
            (r#"{"estimator":"static","limit":10}"#, CapacityParameters::Static(limit)),
            (r#"{"estimator":"static","perCore":8.5}"#, CapacityParameters::PerCore { per_core: 8.5, limit: None }),
            (
                r#"{"estimator":"static","limit":10,"perCore":0.25}"#,
                CapacityParameters::PerCore { per_core: 0.25, limit: Some(limit) },
            ),
            (
                r#"{"estimator":"static","perCore":100000.0}"#,
                CapacityParameters::PerCore { per_core: 1e5, limit: None },
            ),
            (r#"{"estimator":"average"}"#, CapacityParameters::Average(Duration::from_secs(30))),
            (r#"{"estimator":"average","interval":"5s"}"#, CapacityParameters::Average(Duration::from_secs(5))),
            (r#"{"estimator":"slo","slo":"2s"}"#, CapacityParameters::Slo(Duration::from_secs(2))),
        ] {
            assert_eq!(read(json), Ok(expected), "{json}");
        }
    }

    #[test]
    fn a_number_for_each_core_is_above_0_and_at_most_100000() {
        for (number, says) in [("0.0", "0"), ("-1.0", "-1"), ("100000.5", "100000.5")] {
            let refused = format!("perCore: {says} is not allowed; allowed: a number above 0 and at most 100000");
            assert_eq!(read(&format!(r#"{{"estimator":"static","perCore":{number}}}"#)), Err(refused));
        }
        let spec = CapacitySpec::PerCore { per_core: f64::NAN, limit: None };
        assert!(spec.validate().is_err());
        let refused = "limit: 0 is not allowed; allowed: 1 to 1000000";
        assert_eq!(read(r#"{"estimator":"static","limit":0,"perCore":1.0}"#), Err(refused.to_owned()));
    }

    #[test]
    fn a_static_capacity_without_a_number_and_an_unknown_field_are_refused() {
        let refused = read(r#"{"estimator":"static"}"#).unwrap_err();
        assert_eq!(refused, ".: `static` needs `limit`, `perCore` or both");
        let refused = read(r#"{"estimator":"static","perCores":1}"#).unwrap_err();
        assert!(refused.contains("unknown field `perCores`"), "{refused}");
    }
}
