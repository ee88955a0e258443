//! What a server compares with a bid.
//!
//! `offer = wait + (S + F) / 2`
//!
//! `wait` is the time until a place is free, `S` the server's own execution time and `F` that of
//! the fleet, which the bid says. Where all servers are alike this is the expected response time.
//! Half of a slow server's extra execution time counts. If all of it did, the server would be idle
//! until the others are as slow, and the median would pay; if none did, the tail.
//!
//! `S` has an error, another one for each server, and bids must not compare errors. So in the queue
//! only what exceeds three standard errors counts ([`shrink`]). A server that exceeds them counts
//! with all of `S` where it has a free place. The load report has the server's own `S`: otherwise
//! the fleet's mean would feed on itself.
//!
//! Not in the papers. What was tried is in `filters/adr/0019-the-fleets-execution-time.md`.

/// Up to how many standard errors a difference from the fleet counts for nothing.
const STANDARD_ERRORS: f64 = 3.0;

/// The offer of a server that expects to answer after `expected`, and takes `own` of it to execute;
/// all in seconds.
pub fn offer(expected: f64, own: f64, fleet: f64) -> f64 {
    (expected + (fleet - own) / 2.0).max(0.0)
}

/// The execution time of a server that measures `own` seconds, with this `variance` of the mean in
/// seconds squared, in a fleet that takes `fleet` seconds.
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
