//! The omniscient balancer: at the moment of decision every sender sees every server, including the
//! requests on their way there.
//!
//! It is the goal that no real balancer can reach. At a tie it takes a random one. Cost: a look at
//! every server.

use super::{Choice, Moment, Policy, SenderModel, UNAVAILABLE, View};
use crate::requests::Plan;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;

/// What the omniscient balancer compares.
#[derive(Clone, Copy, Debug)]
pub enum Omniscient {
    /// The number of requests: join the shortest queue.
    Queue,
    /// The expected response time: (requests + 1) / service rate.
    Wait,
    /// The wait until a place is free, plus this share of an execution time. With 1 it is the
    /// expected response time of a server with several places: never below an execution time.
    Response(f64),
    /// The number of requests, but only of so many servers at random. The looks take no time, so
    /// it is what the best of so many probes can reach.
    Looks(u32),
}

impl Policy for Omniscient {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(*self)
    }
}

impl SenderModel for Omniscient {
    fn members(&mut self, _servers: &[u32], _now: Timestamp) {}

    fn choose(&mut self, _plan: &mut Plan, _attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        let View { committed, rates, concurrency } = moment.view;
        let server = match self {
            Self::Queue => least(committed.iter().copied(), moment.rng),
            Self::Wait => {
                let wait = |(&committed, &rate): (&u32, &f64)| f64::from(committed + 1) / rate;
                least(committed.iter().zip(rates).map(wait), moment.rng)
            }
            &mut Self::Response(share) => {
                let places = *concurrency;
                let expected = |(&committed, &rate): (&u32, &f64)| {
                    let waiting = (committed + 1).saturating_sub(places);
                    (f64::from(waiting) + share * f64::from(places)) / rate
                };
                least(committed.iter().zip(rates).map(expected), moment.rng)
            }
            &mut Self::Looks(looks) => {
                let looked = moment.rng.choose_multiple(0..committed.len(), looks as usize);
                let best = least(looked.iter().map(|&server| committed[server]), moment.rng);
                best.map(|place| looked[place])
            }
        }?;
        let available = *committed.get(server)? < UNAVAILABLE;
        available.then_some(Choice::plain(server as u32))
    }

    fn answer(&mut self, _attempt: Choice, _answer: &Answer, _began: Timestamp, _now: Timestamp) {}
}

/// The place of the least value; at a tie a random one.
pub(super) fn least<T: PartialOrd + Copy>(
    values: impl Iterator<Item = T> + Clone,
    rng: &mut fastrand::Rng,
) -> Option<usize> {
    let least = values.clone().reduce(|a, b| if b < a { b } else { a })?;
    let equals = values.clone().filter(|&value| value == least).count();
    let chosen = if equals == 1 { 0 } else { rng.usize(..equals) };
    values.enumerate().filter(|&(_, value)| value == least).nth(chosen).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(policy: Omniscient, view: &View) -> [u32; 4] {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut chosen = [0; 4];
        for _ in 0..1000 {
            let mut moment = Moment { now: Timestamp::ZERO, rng: &mut rng, view };
            let choice = policy.clone().choose(&mut Plan::default(), 0, &mut moment).unwrap();
            chosen[choice.server as usize] += 1;
        }
        chosen
    }

    #[test]
    fn joins_the_shortest_queue_or_wait_and_splits_ties_evenly() {
        let view = View { committed: vec![UNAVAILABLE, 1, 1, 3], rates: vec![9.0, 1.0, 1.0, 2.5], concurrency: 1 };
        let [none, a, b, more] = shares(Omniscient::Queue, &view);
        assert!(none == 0 && more == 0 && a.abs_diff(b) < 150, "{a} and {b}");
        assert_eq!(shares(Omniscient::Wait, &view), [0, 0, 0, 1000], "4 / 2.5 is less than 2 / 1");
    }

    #[test]
    fn looks_at_so_many_servers_and_takes_the_emptiest_of_them() {
        let view = View { committed: vec![0, 1, 2, 3], rates: vec![1.0; 4], concurrency: 1 };
        assert_eq!(shares(Omniscient::Looks(4), &view), [1000, 0, 0, 0]);
        // Of two at random, the first wins three of six pairs, the second two, the third one.
        let [a, b, c, d] = shares(Omniscient::Looks(2), &view);
        assert!(a.abs_diff(500) < 65 && b.abs_diff(333) < 65 && c.abs_diff(167) < 65 && d == 0, "{a} {b} {c}");
    }

    #[test]
    fn the_share_of_the_execution_time_says_how_far_a_slow_server_is_spared() {
        // Two places each. The slow one has a free place: no wait, and 4 s of work. The fast one
        // works on a request for 1 s, and frees a place each 0.5 s.
        for (share, tie) in [(0.0, 1), (0.5, 4), (1.0, 7)] {
            let slow = |fast| {
                let view = View { committed: vec![1, fast], rates: vec![0.5, 2.0], concurrency: 2 };
                shares(Omniscient::Response(share), &view)[0]
            };
            assert!(slow(tie).abs_diff(500) < 75, "{share}: {}", slow(tie));
            assert_eq!(slow(tie + 1), 1000, "{share}");
            assert!(share == 0.0 || slow(tie - 1) == 0, "{share}");
        }
    }
}
