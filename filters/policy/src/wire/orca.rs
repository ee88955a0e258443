//! ORCA: the load report of other servers and balancers (`xds.data.orca.v3.OrcaLoadReport`), in
//! text form: JSON or protobuf would cost the module a parser.
//!
//! `TEXT application_utilization=0.8, rps_fractional=40`: 40 requests/s keep the server busy for
//! 80% of the time, so `service rate = rate / utilization`, the weight in Envoy's
//! `client_side_weighted_round_robin` and gRPC's `weighted_round_robin`. Utilization is written as
//! rate / service rate, or `(queue + 1) / capacity` if that is unknown. Reads
//! `application_utilization`, else `cpu_utilization`, and `rps_fractional`, else `rps`; the queue
//! is `U / (1 - U)` with `U` at most 0.95 (single server, random arrivals).

use super::decimal::write_thousandths;
use super::load_report::LoadReport;
use std::fmt::Write;

/// The longest report, in bytes; a longer header is not read.
pub const MAX_LENGTH: usize = 2048;

/// Beyond this utilization, the mean queue would mostly reflect the measurement error.
const MOST_UTILIZED: f64 = 0.95;

/// Writes the header's value into `into`, after clearing it. Returns whether there was anything to
/// write, which needs a measured rate.
pub fn encode(report: &LoadReport, into: &mut String) -> bool {
    into.clear();
    let Some(rate) = report.rate.filter(|rate| *rate > 0.0) else { return false };
    let utilization = match (report.service, report.queue, report.capacity) {
        (Some(service), _, _) if service > 0.0 => rate / service,
        (_, Some(queue), Some(capacity)) if capacity > 0 => (f64::from(queue) + 1.0) / f64::from(capacity),
        _ => return false,
    };
    let thousandths = |value: f64| (value * 1e3).round().clamp(1.0, 1e15) as u64;
    let _ = write!(into, "TEXT application_utilization=");
    write_thousandths(into, thousandths(utilization));
    let _ = write!(into, ",rps_fractional=");
    write_thousandths(into, thousandths(rate));
    true
}

/// Reads a header's value; none if it is not the text form, or has no utilization above zero.
pub fn decode(value: &[u8]) -> Option<LoadReport> {
    if value.len() > MAX_LENGTH {
        return None;
    }
    let text = std::str::from_utf8(value.strip_prefix(b"TEXT ")?).ok()?;
    let (mut application, mut cpu, mut fractional, mut whole) = (None, None, None, None);
    for member in text.split(',') {
        let (key, value) = member.trim().split_once('=')?;
        let slot = match key.trim() {
            "application_utilization" => &mut application,
            "cpu_utilization" => &mut cpu,
            "rps_fractional" => &mut fractional,
            "rps" => &mut whole,
            _ => continue,
        };
        // The module already contains serde_json's number parser; the standard library's would add
        // a twentieth to its size.
        let number: f64 = serde_json::from_str(value.trim()).ok()?;
        *slot = Some(number).filter(|n| *n > 0.0);
    }
    let utilization = application.or(cpu)?;
    let bounded = utilization.min(MOST_UTILIZED);
    let rate: Option<f64> = fractional.or(whole);
    Some(LoadReport {
        chip: true,
        queue: Some((bounded / (1.0 - bounded)).round() as u32),
        rate,
        service: rate.map(|rate| rate / utilization).filter(|service| service.is_finite() && *service > 0.0),
        ..LoadReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(report: LoadReport) -> Option<String> {
        let mut text = "left over".to_owned();
        encode(&report, &mut text).then_some(text)
    }

    #[test]
    fn encodes_utilization_from_the_service_rate_or_the_capacity() {
        let report = LoadReport { rate: Some(40.0), service: Some(50.0), queue: Some(9), ..LoadReport::default() };
        assert_eq!(encoded(report).as_deref(), Some("TEXT application_utilization=0.8,rps_fractional=40"));
        let without_service = LoadReport { service: None, capacity: Some(20), ..report };
        assert_eq!(encoded(without_service).as_deref(), Some("TEXT application_utilization=0.5,rps_fractional=40"));
        assert_eq!(encoded(LoadReport { rate: None, ..report }), None, "nothing has been measured");
        assert_eq!(encoded(LoadReport { service: None, ..report }), None, "nothing to compare the rate with");
    }

    #[test]
    fn writes_nothing_without_a_rate_and_something_to_compare_it_with() {
        let report = LoadReport { rate: Some(40.0), service: Some(0.0), queue: Some(9), ..LoadReport::default() };
        let by_capacity = LoadReport { capacity: Some(20), ..report };
        assert_eq!(encoded(by_capacity).as_deref(), Some("TEXT application_utilization=0.5,rps_fractional=40"));
        assert_eq!(encoded(LoadReport { rate: Some(0.0), ..by_capacity }), None);
        assert_eq!([None, Some(0)].map(|capacity| encoded(LoadReport { capacity, ..report })), [None, None]);
    }

    #[test]
    fn reads_a_report_of_the_maximum_length() {
        let text = format!("{:<MAX_LENGTH$}", "TEXT cpu_utilization=0.5");
        assert!(decode(text.as_bytes()).is_some());
    }

    #[test]
    fn takes_a_zero_for_a_missing_number() {
        let read = decode(b"TEXT application_utilization=0,cpu_utilization=0.5,rps_fractional=0,rps=100").unwrap();
        assert_eq!((read.service, read.rate), (Some(200.0), Some(100.0)));
        let tiny = decode(b"TEXT cpu_utilization=1e10,rps=5e-324").unwrap();
        assert_eq!(tiny.service, None, "the service rate would be 0");
    }

    #[test]
    fn reads_back_the_encoded_service_rate() {
        for (rate, service) in [(40.0, 50.0), (0.5, 1000.0), (12.5, 12.5), (30.0, 20.0)] {
            let report = LoadReport { rate: Some(rate), service: Some(service), ..LoadReport::default() };
            let read = decode(encoded(report).unwrap().as_bytes()).unwrap();
            // Three decimals of a utilization.
            let error = (read.service.unwrap() - service).abs() / service;
            assert!(error <= 0.5e-3 / (rate / service).max(1e-3), "{rate}/{service}: {read:?}");
            assert_eq!((read.rate, read.chip), (Some(rate), true));
        }
    }

    #[test]
    fn reads_usable_fields_of_orca_reports_from_other_software() {
        let read = decode(b"TEXT cpu_utilization=0.5, rps=100, named_metrics.kv=1e3, mem_utilization=0.9").unwrap();
        assert_eq!((read.service, read.queue), (Some(200.0), Some(1)), "half utilized: one request on average");
        let read = decode(b"TEXT application_utilization=7,cpu_utilization=0.1,rps_fractional=70").unwrap();
        assert_eq!((read.service, read.queue), (Some(10.0), Some(19)), "utilization is bounded");
        let read = decode(b"TEXT cpu_utilization=0.9").unwrap();
        assert_eq!((read.service, read.rate, read.queue), (None, None, Some(9)));
    }

    #[test]
    fn rejects_invalid_reports() {
        let long = format!("TEXT cpu_utilization=0.5{}", " ".repeat(MAX_LENGTH));
        let nonsense: [&[u8]; 12] = [
            b"",
            b"TEXT ",
            b"cpu_utilization=0.5",
            b"JSON {\"cpu_utilization\": 0.5}",
            b"TEXT cpu_utilization",
            b"TEXT cpu_utilization=NaN",
            b"TEXT cpu_utilization=0.5, rps=NaN",
            b"TEXT cpu_utilization=-1",
            b"TEXT cpu_utilization=inf",
            b"TEXT cpu_utilization=\xff",
            b"TEXT rps=100",
            long.as_bytes(),
        ];
        for value in nonsense {
            assert_eq!(decode(value), None, "{:?}", String::from_utf8_lossy(value));
        }
        assert_eq!(decode(b"TEXT cpu_utilization=5e-324, rps=1e300").unwrap().service, None, "the rate overflows");
    }
}
