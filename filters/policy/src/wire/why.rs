//! `x-bloc-why`: why a request was rejected, with the numbers behind it, for people who debug.
//!
//! An RFC 9651 item, a token with parameters; unknown values are absent. Times are in milliseconds:
//!
//! | value | meaning |
//! |---|---|
//! | `capacity;queue=10;limit=10;expected=550` | the server had 10 requests and admits 10; one more would have been answered after 550 ms |
//! | `bid;queue=7;limit=10;expected=400;bid=180.5` | it would have been answered after 400 ms, and the attempt accepted 180.5 ms |
//! | `bid;queue=7;limit=10;expected=400;offer=350;bid=180.5` | the offer ([`super::offer`]) was 350 ms by the load report; the server itself compares an execution time without its error |
//! | `deadline;queue=7;limit=10;expected=400;deadline=250` | it had 250 ms until its deadline, or was held too long |
//! | `unreachable;queue=7;limit=10;expected=400` | the server's proxy got no connection to the application |
//! | `slo;expected=1400;slo=1000` | the caller expected 1400 ms of its best server |
//!
//! A caller appends `;attempt=4;server="10.0.0.7:8080";took=1.9`: the attempt's number, its server,
//! and the time until it came back. Written only with `debugHeaders`, so the cost does not matter.

use super::bid::Bid;
use super::decimal::write_thousandths;
use super::load_report::LoadReport;
use super::reason::Reason;
use std::fmt::Write;
use std::time::Duration;

/// The limits of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The attempt's bid; none: any time.
    pub bid: Option<Bid>,
    /// The time left; none: no deadline, or unknown.
    pub deadline: Option<Duration>,
}

/// Why a server with this `report` rejected a request; `why` is none for a reason that this version
/// does not know.
pub fn rejected(why: Option<Reason>, report: &LoadReport, terms: Terms) -> String {
    let mut text = why.map_or("unknown", Reason::as_str).to_owned();
    if let Some(queue) = report.queue {
        let _ = write!(text, ";queue={queue}");
    }
    if let Some(limit) = report.capacity {
        let _ = write!(text, ";limit={limit}");
    }
    time(&mut text, "expected", report.expected());
    match why {
        Some(Reason::Bid) => {
            let offer = terms.bid.and_then(|bid| report.offer(bid.fleet.map(|fleet| fleet.as_secs_f64())));
            let offer = offer.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            time(&mut text, "offer", offer.filter(|_| offer != report.expected()));
            time(&mut text, "bid", terms.bid.map(|bid| bid.most));
        }
        Some(Reason::Deadline) => time(&mut text, "deadline", terms.deadline),
        Some(Reason::Capacity | Reason::Unreachable) | None => {}
    }
    text
}

/// Adds the number of the attempt (from 0; none: unknown), its server, and the time it took.
pub fn met(mut text: String, attempt: Option<usize>, server: &str, took: Duration) -> String {
    if let Some(attempt) = attempt {
        let _ = write!(text, ";attempt={}", attempt + 1);
    }
    // An address contains nothing that RFC 9651 strings must escape.
    let _ = write!(text, ";server=\"{server}\"");
    time(&mut text, "took", Some(took));
    text
}

/// Why a caller refused a request: its best server would exceed the SLO by `overrun`.
pub fn refused(overrun: Duration, slo: Duration) -> String {
    let mut text = "slo".to_owned();
    time(&mut text, "expected", Some(overrun + slo));
    time(&mut text, "slo", Some(slo));
    text
}

fn time(text: &mut String, key: &str, value: Option<Duration>) {
    if let Some(value) = value {
        let _ = write!(text, ";{key}=");
        write_thousandths(text, u64::try_from(value.as_micros()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// Seven requests in a server that finishes twenty per second: the next one is answered after
    /// 400 ms.
    fn report() -> LoadReport {
        LoadReport { queue: Some(7), capacity: Some(10), service: Some(20.0), ..LoadReport::default() }
    }

    #[test]
    fn each_reason_has_the_numbers_that_decided_it() {
        let terms = Terms { bid: Some(Duration::from_micros(180_500).into()), deadline: Some(millis(250)) };
        let value = |why, terms| rejected(why, &report(), terms);
        assert_eq!(value(Some(Reason::Capacity), terms), "capacity;queue=7;limit=10;expected=400");
        assert_eq!(value(Some(Reason::Bid), terms), "bid;queue=7;limit=10;expected=400;bid=180.5");
        assert_eq!(value(Some(Reason::Deadline), terms), "deadline;queue=7;limit=10;expected=400;deadline=250");
        assert_eq!(value(Some(Reason::Unreachable), terms), "unreachable;queue=7;limit=10;expected=400");
        assert_eq!(value(None, terms), "unknown;queue=7;limit=10;expected=400");
    }

    #[test]
    fn a_bounce_names_what_a_server_unlike_the_fleet_offered() {
        let report = LoadReport { fleet: true, execution: Some(millis(200)), ..report() };
        let value = |fleet| {
            let bid = Some(Bid { most: millis(180), fleet: Some(millis(fleet)) });
            rejected(Some(Reason::Bid), &report, Terms { bid, deadline: None })
        };
        assert_eq!(value(100), "bid;queue=7;limit=10;expected=400;offer=350;bid=180");
        assert_eq!(value(200), "bid;queue=7;limit=10;expected=400;bid=180");
    }

    #[test]
    fn omits_members_that_are_unknown() {
        let value = rejected(Some(Reason::Bid), &LoadReport::default(), Terms::default());
        assert_eq!(value, "bid");
        assert_eq!(met(value, None, "10.0.0.7:80", millis(2)), "bid;server=\"10.0.0.7:80\";took=2");
    }

    #[test]
    fn attempts_are_counted_from_one_as_envoy_does() {
        let value = met("capacity".into(), Some(3), "[::1]:80", millis(251));
        assert_eq!(value, "capacity;attempt=4;server=\"[::1]:80\";took=251");
    }

    #[test]
    fn an_slo_refusal_names_the_expected_time_and_the_slo() {
        assert_eq!(refused(millis(400), millis(1000)), "slo;expected=1400;slo=1000");
    }
}
