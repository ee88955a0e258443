//! What a server compares with a bid: `offer = wait + (S + F) / 2`.
//!
//! `wait` is the time until a place is free, `S` the server's own execution time, and `F` the
//! fleet's, which the bid states. Half of a slow server's extra time counts: with all of it the
//! median would suffer, with none the tail. In the queue only the part of `S - F` beyond three
//! standard errors counts ([`shrink`]), because errors differ between servers. The load report has
//! the server's own `S`, since the fleet's mean would otherwise feed on itself. Not in the papers;
//! see `filters/adr/0019-the-fleets-execution-time.md`.

/// Differences from the fleet of up to this many standard errors do not count.
const STANDARD_ERRORS: f64 = 3.0;

/// The offer of a server that would answer after `expected`, `own` of it in execution; all in
/// seconds.
pub fn offer(expected: f64, own: f64, fleet: f64) -> f64 {
    (expected + (fleet - own) / 2.0).max(0.0)
}

/// The execution time to use for a server that measures `own` seconds, with this `variance` of the
/// mean (seconds squared), in a fleet of `fleet` seconds.
pub fn shrink(own: f64, variance: f64, fleet: f64) -> f64 {
    let difference = own - fleet;
    let excess = difference.abs() - STANDARD_ERRORS * variance.sqrt();
    fleet + excess.max(0.0).copysign(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_spared_by_half_of_what_it_is_slower() {
        // Expected response time, own execution time, that of the fleet; the offer.
        for ([expected, own, fleet], is) in [
            ([300.0, 100.0, 100.0], 300.0),
            ([300.0, 200.0, 100.0], 250.0),
            ([300.0, 50.0, 100.0], 325.0),
            ([200.0, 200.0, 100.0], 150.0),
            ([100.0, 1000.0, 100.0], 0.0),
        ] {
            assert_eq!(offer(expected, own, fleet), is, "{expected}, {own}, {fleet}");
        }
    }

    #[test]
    fn a_difference_counts_beyond_three_standard_errors() {
        // With a standard error of 5.
        for (own, is) in [(100.0, 100.0), (115.0, 100.0), (117.0, 102.0), (85.0, 100.0), (80.0, 95.0)] {
            assert_eq!(shrink(own, 25.0, 100.0), is, "{own}");
        }
        assert_eq!(shrink(101.0, 0.0, 100.0), 101.0);
    }

    #[test]
    fn what_is_not_known_at_all_counts_as_the_fleet() {
        assert_eq!(shrink(1e9, f64::INFINITY, 100.0), 100.0);
    }
}
