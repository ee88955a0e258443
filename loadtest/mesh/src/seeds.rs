//! Seeds of independent random streams, all derived from the seed of a case.
//!
//! The arrivals, each backend's service times, and each round have their own stream. With adjacent
//! seeds (`seed`, `seed + 1`), the arrivals of one round would have the seed of a backend in
//! another, so arrivals and service times would repeat each other. Here each stream's seed is a
//! hash of the case's seed, the stream's kind and its number, by the finalizer of SplitMix64
//! (Steele, Lea and Flood, 2014). The finalizer is a bijection of 64 bits, so two backends of one
//! case never share a stream. Any other two streams do with a probability of at most 1 in 2^53.

/// The kind of a stream, a different constant each.
#[derive(Clone, Copy)]
enum Stream {
    Arrivals = 1,
    Backend = 2,
    Round = 3,
}

/// Bits of a round's seed: JSON readers that only have doubles keep numbers up to 2^53.
const ROUND_BITS: u32 = 53;

/// The seed of the arrivals of a case with this seed.
pub fn arrivals(seed: u64) -> u64 {
    derived(seed, Stream::Arrivals, 0)
}

/// The seed of the service times of backend `n` in a case with this seed.
pub fn backend(seed: u64, n: usize) -> u64 {
    derived(seed, Stream::Backend, n as u64)
}

/// The seed of the cases in this round, counted from 0. Round 0 has the given seed; the seeds of
/// later rounds are below 2^53. A case that runs alone with this seed repeats its run in the round.
pub fn round(seed: u64, round: usize) -> u64 {
    match round {
        0 => seed,
        _ => derived(seed, Stream::Round, round as u64) >> (u64::BITS - ROUND_BITS),
    }
}

fn derived(seed: u64, stream: Stream, number: u64) -> u64 {
    mixed(mixed(mixed(seed) ^ stream as u64) ^ number)
}

/// The next output of SplitMix64 in the state `value`. Each input bit affects about half of the
/// output bits.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The arrivals and 100 backends in each of 100 rounds.
    fn streams(seed: u64) -> Vec<u64> {
        let of = |seed| std::iter::once(arrivals(seed)).chain((0..100).map(move |n| backend(seed, n)));
        (0..100).flat_map(|k| of(round(seed, k))).collect()
    }

    #[test]
    fn no_two_streams_coincide() {
        let seeds = [0, 1, 2, u64::MAX];
        let all: Vec<u64> = seeds.into_iter().flat_map(streams).collect();
        assert_eq!(all.len(), 4 * 100 * 101);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        // None is a small number, which users might choose for other cases.
        assert!(all.iter().all(|seed| *seed > 1_000_000));
    }

    #[test]
    fn the_same_seed_repeats_and_the_first_round_uses_it_unchanged() {
        assert_eq!(streams(7), streams(7));
        assert_eq!(round(7, 0), 7);
        assert!((1..100).all(|k| round(7, k) < 1 << ROUND_BITS));
    }

    #[test]
    fn mixes_seeds_as_splitmix64_does() {
        // The first two outputs of the reference implementation in the state 0.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
