//! The capacity of a backend as written on the command line: `static:10`, `per-core:8`,
//! `slo:500ms`, `average:30s`. The filters check the ranges again.

use crate::quantity::{NotAllowed, duration, number};
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Reads `static:10` (or just `10`), `per-core:8`, `slo:500ms`, `average:30s`, or `none`.
///
/// # Errors
/// None of these, or a value outside its range.
pub fn read_capacity(text: &str) -> Result<Option<CapacitySpec>, NotAllowed> {
    let limit = |text| number(text, 1, 1_000_000).map(|limit| CapacitySpec::Static { limit });
    let spec = match text.split_once(':') {
        None if text == "none" => return Ok(None),
        None => limit(text),
        Some(("static", text)) => limit(text),
        Some(("per-core", text)) => {
            number(text, f64::MIN_POSITIVE, 100_000.0).map(|per_core| CapacitySpec::PerCore { per_core, limit: None })
        }
        Some(("slo", text)) => {
            duration(text, Duration::from_millis(1), HOUR).map(|_| CapacitySpec::Slo { slo: text.to_owned() })
        }
        Some(("average", text)) => duration(text, Duration::from_secs(1), HOUR)
            .map(|_| CapacitySpec::Average { interval: Some(text.to_owned()) }),
        Some(_) => Err(NotAllowed(String::new())),
    };
    let forms = "static:LIMIT with 1 to 1000000, per-core:NUMBER above 0 to 100000, slo:TIME with 1ms to 1h, average:INTERVAL with 1s to 1h, or none";
    spec.map(Some).map_err(|_| NotAllowed(forms.to_owned()))
}

/// The form that [`read_capacity`] reads.
pub fn show_capacity(spec: Option<&CapacitySpec>) -> String {
    match spec {
        None => "none".to_owned(),
        Some(CapacitySpec::Static { limit }) => format!("static:{limit}"),
        Some(CapacitySpec::PerCore { per_core, .. }) => format!("per-core:{per_core}"),
        Some(CapacitySpec::Slo { slo }) => format!("slo:{slo}"),
        Some(CapacitySpec::Average { interval }) => format!("average:{}", interval.as_deref().unwrap_or("30s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_each_kind_of_capacity() {
        for text in ["none", "static:10", "per-core:8.5", "slo:500ms", "average:30s"] {
            assert_eq!(show_capacity(read_capacity(text).unwrap().as_ref()), text);
        }
        assert_eq!(read_capacity("7"), read_capacity("static:7"));
    }

    #[test]
    fn refuses_an_invalid_capacity() {
        for text in [
            "",
            "0",
            "static:0",
            "static:x",
            "per-core:0",
            "per-core:100001",
            "slo:",
            "slo:0s",
            "slo:2h",
            "average:500ms",
            "vegas:1",
        ] {
            assert!(read_capacity(text).is_err(), "{text}");
        }
    }
}
