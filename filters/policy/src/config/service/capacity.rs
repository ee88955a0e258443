//! Where the capacity of a server comes from.

use crate::config::error::ConfigError;
use crate::config::kinds::{Kind, MILLISECOND, Maybe, Number, Time, Whole};
use crate::config::seen::Seen;
use crate::units::Concurrency;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// Requests in flight.
const LIMIT: Maybe<Whole> = Maybe(Whole { default: 1, least: 1, most: 1_000_000 });
/// The same for each core.
const PER_CORE: Number = Number { default: 1.0, most: 1e5, zero: false };
/// How long a mean is taken over; the default is that of the paper, 5.4.4.
const INTERVAL: Time = Time::new(Duration::from_secs(30), Duration::from_secs(1));
const SLO: Time = Time::new(Duration::from_secs(1), MILLISECOND);

/// The estimators, in the order in which they are recommended.
const ESTIMATORS: &str = "static, slo, average";

/// Where the capacity of a server comes from, as a user writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
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

/// Where the capacity comes from, after the check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CapacityParameters {
    /// No limit: everything is admitted.
    Unlimited,
    /// This many requests at once.
    Static(Concurrency),
    /// In proportion to the CPU that the application has.
    PerCore {
        /// Requests at once for each core, above 0 and at most 100,000.
        per_core: f64,
        /// At most so many, and so many while the CPU is not known; none: no limit.
        limit: Option<Concurrency>,
    },
    /// The mean number of requests in flight, renewed after each interval.
    Average(Duration),
    /// What the measured service rate finishes within this time.
    Slo(Duration),
}

impl CapacitySpec {
    /// Checks every value; paths are relative to this spec.
    fn validate(&self) -> Result<CapacityParameters, ConfigError> {
        let limit = |limit: Option<i64>| Ok(LIMIT.checked("limit", limit.as_ref())?.map(Concurrency::new));
        Ok(match self {
            Self::Static { limit: written } => {
                limit(Some(*written))?.map_or(CapacityParameters::Unlimited, CapacityParameters::Static)
            }
            Self::PerCore { per_core, limit: written } => CapacityParameters::PerCore {
                per_core: PER_CORE.checked("perCore", Some(per_core))?,
                limit: limit(*written)?,
            },
            Self::Average { interval } => CapacityParameters::Average(INTERVAL.checked("interval", interval.as_ref())?),
            Self::Slo { slo } => CapacityParameters::Slo(SLO.checked("slo", Some(slo))?),
        })
    }
}

impl From<CapacitySpec> for Seen {
    fn from(_: CapacitySpec) -> Self {
        Self::Mapping
    }
}

/// The kind of the parameter `capacity`.
#[derive(Clone, Copy, Debug)]
pub struct Capacity;

impl Kind for Capacity {
    type Written = CapacitySpec;
    type Value = CapacityParameters;

    fn take(self, _seen: Seen) -> Option<CapacitySpec> {
        None
    }

    fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<CapacitySpec>, D::Error> {
        Option::deserialize(deserializer)
    }

    fn allowed(self) -> String {
        format!("a mapping with `estimator`: {ESTIMATORS}")
    }

    fn check(self, written: &CapacitySpec) -> Option<CapacityParameters> {
        written.validate().ok()
    }

    fn checked(self, name: &str, written: Option<&CapacitySpec>) -> Result<CapacityParameters, ConfigError> {
        written.map_or(Ok(self.default()), |spec| spec.validate().map_err(|error| error.under(name)))
    }

    fn default(self) -> CapacityParameters {
        CapacityParameters::Unlimited
    }

    fn canonical(value: &CapacityParameters) -> String {
        match value {
            CapacityParameters::Unlimited => "unlimited".to_owned(),
            CapacityParameters::Static(limit) => format!("static {}", limit.get()),
            CapacityParameters::PerCore { per_core, limit } => {
                format!(
                    "per core {} {}",
                    Number::canonical(per_core),
                    Maybe::<Whole>::canonical(&limit.map(Concurrency::get))
                )
            }
            CapacityParameters::Average(interval) => format!("average {}", Time::canonical(interval)),
            CapacityParameters::Slo(slo) => format!("slo {}", Time::canonical(slo)),
        }
    }

    #[cfg(feature = "schema")]
    fn shown(value: &CapacityParameters) -> String {
        match value {
            CapacityParameters::Unlimited => "no limit".to_owned(),
            CapacityParameters::Static(limit) => format!("{} requests", limit.get()),
            CapacityParameters::PerCore { per_core, limit: None } => format!("{per_core} requests per core"),
            CapacityParameters::PerCore { per_core, limit: Some(limit) } => {
                format!("{per_core} requests per core, at most {}", limit.get())
            }
            CapacityParameters::Average(interval) => format!("average, every {}", Time::shown(interval)),
            CapacityParameters::Slo(slo) => format!("as many as finish within {}", Time::shown(slo)),
        }
    }

    #[cfg(feature = "schema")]
    fn schema(self) -> serde_json::Value {
        use serde_json::json;
        let one = |estimator: &str, description: &str, mut properties: serde_json::Value, required: &[&str]| {
            if let Some(members) = properties.as_object_mut() {
                members.insert("estimator".to_owned(), json!({"const": estimator}));
            }
            let required: Vec<_> = ["estimator"].iter().chain(required).collect();
            json!({"type": "object", "description": description, "additionalProperties": false,
                "properties": properties, "required": required})
        };
        json!({"oneOf": [
            one("static", "A fixed number of requests, or one for each core that the application has, or both: \
                then the number is the most, and holds while the CPU is not known.",
                json!({"limit": LIMIT.schema(), "perCore": PER_CORE.schema()}), &[]),
            one("slo", "As many as the measured service rate finishes within the SLO.", json!({"slo": SLO.schema()}), &["slo"]),
            one("average", "The mean number of requests in flight; it can only fall.",
                json!({"interval": INTERVAL.schema()}), &[]),
        ]})
    }
}

/// Any of the estimators, as a file has it.
#[derive(Default, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    rename_all = "camelCase",
    expecting = "a mapping with `estimator`: static, slo, average"
)]
struct Fields {
    #[serde(deserialize_with = "estimator")]
    estimator: String,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "limit")]
    limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "per_core")]
    per_core: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "interval")]
    interval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "slo")]
    slo: Option<String>,
}

fn estimator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Seen::deserialize(deserializer)? {
        Seen::Text(text) if ESTIMATORS.split(", ").any(|known| known == text) => Ok(text),
        other => Err(D::Error::custom(format_args!("{other} is not allowed; allowed: {ESTIMATORS}"))),
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    LIMIT.read(deserializer)
}

fn per_core<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    PER_CORE.read(deserializer)
}

fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    INTERVAL.read(deserializer)
}

fn slo<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    SLO.read(deserializer)
}

impl From<CapacitySpec> for Fields {
    fn from(spec: CapacitySpec) -> Self {
        let fields = |estimator: &str| Self { estimator: estimator.to_owned(), ..Self::default() };
        match spec {
            CapacitySpec::Static { limit } => Self { limit: Some(limit), ..fields("static") },
            CapacitySpec::PerCore { per_core, limit } => Self { limit, per_core: Some(per_core), ..fields("static") },
            CapacitySpec::Average { interval } => Self { interval, ..fields("average") },
            CapacitySpec::Slo { slo } => Self { slo: Some(slo), ..fields("slo") },
        }
    }
}

impl TryFrom<Fields> for CapacitySpec {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let Fields { estimator, limit, per_core, interval, slo } = fields;
        let has: &[&str] = match estimator.as_str() {
            "static" => &["limit", "perCore"],
            "slo" => &["slo"],
            "average" => &["interval"],
            _ => return Err(format!("`estimator` is missing; allowed: {ESTIMATORS}")),
        };
        let written = [
            ("limit", limit.is_some()),
            ("perCore", per_core.is_some()),
            ("slo", slo.is_some()),
            ("interval", interval.is_some()),
        ];
        if let Some((name, _)) = written.iter().find(|(name, is_written)| *is_written && !has.contains(name)) {
            return Err(format!("`{estimator}` has no `{name}`; it has: {}", has.join(", ")));
        }
        match (estimator.as_str(), limit, per_core, slo) {
            ("static", limit, Some(per_core), _) => Ok(Self::PerCore { per_core, limit }),
            ("static", Some(limit), None, _) => Ok(Self::Static { limit }),
            ("static", ..) => Err("`static` needs `limit`, `perCore` or both".to_owned()),
            ("slo", .., Some(slo)) => Ok(Self::Slo { slo }),
            ("slo", ..) => Err("`slo` needs `slo`, the response time to be met".to_owned()),
            _ => Ok(Self::Average { interval }),
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
        assert!(refused.starts_with(".: `static` needs `limit`, `perCore` or both"), "{refused}");
        let refused = read(r#"{"estimator":"static","limit":1,"slo":"1s"}"#).unwrap_err();
        assert!(refused.starts_with(".: `static` has no `slo`; it has: limit, perCore"), "{refused}");
        for (json, says) in [
            ("10", "integer `10`, expected a mapping with `estimator`: static, slo, average"),
            ("{}", "`estimator` is missing; allowed: static, slo, average"),
        ] {
            assert!(read(json).unwrap_err().contains(says), "{json}");
        }
        let refused = read(r#"{"estimator":"static","perCores":1}"#).unwrap_err();
        assert!(refused.contains("unknown field `perCores`"), "{refused}");
    }
}
