//! The cells: a covering design, in which each pair of values occurs, and named corners.

use super::cell::{Cell, Speeds, Times, Told, Trouble};
use std::collections::HashSet;

const CONCURRENCY: [u32; 5] = [1, 2, 4, 20, 100];
const TIMES: [Times; 4] = [Times::Fixed, Times::Exponential, Times::Lognormal, Times::Mixed];
const SPEEDS: [Speeds; 4] = [Speeds::Equal, Speeds::Two, Speeds::OneAtHalf, Speeds::OneAtATenth];
const LOADS: [u32; 7] = [30, 50, 70, 90, 95, 105, 200];
const SENDERS: [u32; 3] = [4, 40, 400];
const SERVERS: [u32; 3] = [3, 10, 100];
const MEANS: [u64; 5] = [1, 10, 50, 250, 1000];
const TOLD: [Told; 5] = [Told::Hold, Told::Truth, Told::Nothing, Told::Half, Told::Twice];

/// The number of values of each dimension, in the order of [`cell_at`].
const SIZES: [usize; 8] =
    [CONCURRENCY.len(), TIMES.len(), SPEEDS.len(), LOADS.len(), SENDERS.len(), SERVERS.len(), MEANS.len(), TOLD.len()];
/// How many cells are drawn for each one that is taken.
const CANDIDATES: usize = 200;
/// More cells than these are refused.
pub const MOST: usize = 200;

/// The places of a cell's values.
type Places = [usize; SIZES.len()];
/// A dimension and the place of its value, twice.
type Pair = (usize, usize, usize, usize);

fn cell_at([concurrency, times, speeds, load, senders, servers, mean, told]: Places) -> Cell {
    Cell {
        concurrency: CONCURRENCY[concurrency],
        times: TIMES[times],
        speeds: SPEEDS[speeds],
        load: LOADS[load],
        senders: SENDERS[senders],
        servers: SERVERS[servers],
        mean_ms: MEANS[mean],
        told: TOLD[told],
        trouble: Trouble::None,
    }
}

/// Whether a cell belongs to the design. Filling 100 servers with 100 places each takes millions of
/// requests under overload.
fn belongs(cell: &Cell) -> bool {
    cell.is_possible() && !(cell.is_overloaded() && cell.servers * cell.concurrency > 2_000)
}

fn pairs_of(places: &Places) -> impl Iterator<Item = Pair> {
    (0..places.len()).flat_map(move |a| (a + 1..places.len()).map(move |b| (a, places[a], b, places[b])))
}

/// The covering design, at most [`MOST`] cells; always the same ones.
///
/// Greedy: of the cells drawn at random, the one with the most pairs that do not occur yet. A drawn
/// cell contains one of these pairs.
pub fn covering() -> Vec<Cell> {
    let mut rng = fastrand::Rng::with_seed(27);
    let values = || SIZES.iter().enumerate().flat_map(|(of, &size)| (0..size).map(move |place| (of, place)));
    let mut missing: HashSet<Pair> = values()
        .flat_map(|(a, of_a)| values().filter(move |(b, _)| *b > a).map(move |(b, of_b)| (a, of_a, b, of_b)))
        .collect();
    // The only pair that no cell can have: half of one request at a time.
    missing.retain(|&(a, of_a, b, of_b)| !(a == 0 && b == 7 && CONCURRENCY[of_a] == 1 && TOLD[of_b] == Told::Half));
    let mut cells = Vec::new();
    while !missing.is_empty() && cells.len() < MOST {
        let mut goals: Vec<Pair> = missing.iter().copied().collect();
        goals.sort_unstable();
        let mut best: Option<(usize, Places)> = None;
        for _ in 0..CANDIDATES {
            let &(a, of_a, b, of_b) = &goals[rng.usize(..goals.len())];
            let mut places: Places = SIZES.map(|size| rng.usize(..size));
            (places[a], places[b]) = (of_a, of_b);
            if !belongs(&cell_at(places)) {
                continue;
            }
            let gain = pairs_of(&places).filter(|pair| missing.contains(pair)).count();
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, places));
            }
        }
        if let Some((_, places)) = best {
            for pair in pairs_of(&places) {
                missing.remove(&pair);
            }
            cells.push(cell_at(places));
        }
    }
    cells
}

/// Named corners: regimes that people have, and those in which bids once did harm.
pub fn corners() -> Vec<Cell> {
    use Speeds::{Equal, OneAtATenth, OneAtHalf, Two};
    use Times::{Exponential, Fixed, Lognormal, Mixed};
    use Told::{Half, Hold, Nothing, Truth, Twice};
    let corners = [
        // One place.
        (10, 1, Fixed, 50, Equal, 50, 40, Truth),
        (10, 1, Fixed, 50, Equal, 70, 40, Truth),
        (10, 1, Fixed, 50, Equal, 90, 40, Truth),
        (10, 1, Fixed, 50, Equal, 95, 40, Truth),
        (10, 1, Fixed, 50, Equal, 90, 40, Hold),
        (10, 1, Fixed, 50, Equal, 90, 40, Nothing),
        (3, 1, Fixed, 50, Equal, 90, 40, Truth),
        (100, 1, Fixed, 50, Equal, 90, 40, Truth),
        (10, 1, Exponential, 50, Equal, 70, 40, Truth),
        (10, 1, Exponential, 50, Equal, 90, 40, Truth),
        (10, 1, Exponential, 10, Equal, 90, 40, Truth),
        (10, 1, Exponential, 1, Equal, 90, 40, Truth),
        (10, 1, Lognormal, 50, Equal, 70, 40, Hold),
        (10, 1, Lognormal, 50, Equal, 70, 40, Truth),
        (10, 1, Lognormal, 50, Equal, 90, 40, Hold),
        (10, 1, Lognormal, 50, Equal, 90, 40, Truth),
        (10, 1, Mixed, 50, Equal, 70, 40, Hold),
        (10, 1, Mixed, 50, Equal, 70, 40, Truth),
        (3, 1, Lognormal, 50, Equal, 90, 4, Truth),
        (10, 1, Fixed, 50, OneAtHalf, 90, 40, Truth),
        (10, 1, Fixed, 50, OneAtATenth, 70, 40, Truth),
        (10, 1, Fixed, 50, Two, 90, 40, Truth),
        (10, 1, Lognormal, 50, OneAtATenth, 90, 40, Truth),
        // Few places.
        (10, 2, Lognormal, 50, Equal, 70, 40, Hold),
        (10, 2, Lognormal, 50, Equal, 80, 40, Hold),
        (10, 4, Exponential, 100, Equal, 50, 40, Truth),
        (10, 4, Exponential, 100, Equal, 90, 40, Truth),
        (10, 4, Exponential, 100, Equal, 90, 40, Half),
        (10, 4, Exponential, 100, Equal, 90, 40, Twice),
        (10, 4, Exponential, 100, Equal, 90, 40, Nothing),
        (10, 4, Exponential, 100, OneAtHalf, 90, 40, Truth),
        (10, 4, Lognormal, 100, Equal, 90, 40, Truth),
        (10, 4, Mixed, 50, Equal, 90, 40, Nothing),
        (100, 4, Lognormal, 50, Equal, 90, 4, Truth),
        // Many places.
        (5, 20, Exponential, 250, Equal, 50, 40, Truth),
        (5, 20, Exponential, 250, Equal, 90, 10, Truth),
        (5, 20, Exponential, 250, Equal, 90, 40, Truth),
        (5, 20, Exponential, 250, OneAtHalf, 70, 40, Truth),
        (5, 20, Exponential, 250, OneAtHalf, 90, 40, Truth),
        (10, 20, Fixed, 50, Equal, 90, 40, Truth),
        (10, 20, Exponential, 50, Equal, 50, 40, Truth),
        (10, 20, Exponential, 50, Equal, 90, 40, Nothing),
        (10, 20, Lognormal, 50, Equal, 90, 40, Truth),
        (10, 20, Mixed, 50, Equal, 90, 40, Truth),
        (10, 20, Exponential, 50, Two, 90, 40, Truth),
        (10, 20, Exponential, 50, OneAtATenth, 90, 40, Truth),
        (3, 20, Lognormal, 50, Equal, 90, 400, Truth),
        (10, 100, Exponential, 100, Equal, 90, 40, Truth),
        // Overload.
        (10, 1, Fixed, 50, Equal, 105, 40, Truth),
        (10, 1, Fixed, 50, Equal, 200, 40, Truth),
        (10, 1, Lognormal, 50, Equal, 200, 40, Hold),
        (10, 4, Exponential, 100, Equal, 105, 40, Truth),
        (10, 4, Exponential, 100, Equal, 200, 40, Truth),
        (5, 20, Exponential, 250, Equal, 200, 40, Truth),
        // Two servers: a bounce leads to the other one.
        (2, 1, Fixed, 50, Equal, 50, 40, Truth),
        (2, 1, Fixed, 50, Equal, 90, 40, Truth),
        (2, 1, Fixed, 50, OneAtHalf, 50, 40, Truth),
        (2, 1, Fixed, 50, OneAtHalf, 90, 40, Truth),
        (2, 1, Fixed, 50, OneAtATenth, 70, 4, Truth),
        (2, 1, Lognormal, 50, Equal, 70, 40, Hold),
        (2, 4, Exponential, 100, Equal, 50, 40, Truth),
        (2, 4, Exponential, 100, Equal, 90, 40, Truth),
        (2, 4, Exponential, 100, OneAtHalf, 70, 40, Nothing),
        (2, 20, Exponential, 250, Equal, 90, 40, Truth),
        (2, 20, Exponential, 250, OneAtHalf, 90, 40, Truth),
        (2, 1, Fixed, 50, Equal, 105, 40, Truth),
        (2, 4, Exponential, 100, OneAtHalf, 200, 40, Truth),
        // Gateways.
        (20, 4, Exponential, 100, Two, 90, 1, Truth),
        (20, 4, Exponential, 100, Two, 90, 10, Truth),
    ]
    .map(|(servers, concurrency, times, mean_ms, speeds, load, senders, told)| Cell {
        servers,
        concurrency,
        times,
        mean_ms,
        speeds,
        load,
        senders,
        told,
        trouble: Trouble::None,
    });
    corners.into_iter().chain(troubles()).collect()
}

/// What happens to one of five servers.
fn troubles() -> impl Iterator<Item = Cell> {
    let cell = Cell {
        servers: 5,
        concurrency: 4,
        times: Times::Fixed,
        mean_ms: 50,
        speeds: Speeds::Equal,
        load: 60,
        senders: 2,
        told: Told::Truth,
        trouble: Trouble::None,
    };
    [Trouble::Cold, Trouble::Away, Trouble::Wrong, Trouble::Fast].into_iter().flat_map(move |trouble| {
        [(2, 30), (2, 60), (40, 60)].map(|(senders, load)| Cell { senders, load, trouble, ..cell })
    })
}

/// The same cells with sidecars that are told nothing, each once.
pub fn unconfigured(cells: Vec<Cell>) -> Vec<Cell> {
    let mut seen = HashSet::new();
    let told_nothing = cells.into_iter().map(|cell| Cell { told: Told::Nothing, ..cell });
    told_nothing.filter(|cell| seen.insert(*cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a cell of the design has both values.
    fn occurs(cells: &[Cell], test: impl Fn(&Cell) -> bool) -> bool {
        cells.iter().any(test)
    }

    #[test]
    fn each_pair_of_values_occurs_in_at_most_200_cells() {
        let cells = covering();
        assert!((35..=MOST).contains(&cells.len()), "{} cells", cells.len());
        let values = |cell: &Cell| {
            [
                u64::from(cell.concurrency),
                cell.times as u64,
                cell.speeds as u64,
                u64::from(cell.load),
                u64::from(cell.senders),
                u64::from(cell.servers),
                cell.mean_ms,
                cell.told as u64,
            ]
        };
        let all: [Vec<u64>; 8] = [
            CONCURRENCY.map(u64::from).to_vec(),
            (0..4).collect(),
            (0..4).collect(),
            LOADS.map(u64::from).to_vec(),
            SENDERS.map(u64::from).to_vec(),
            SERVERS.map(u64::from).to_vec(),
            MEANS.to_vec(),
            (0..5).collect(),
        ];
        let mut absent = Vec::new();
        for a in 0..8 {
            for b in a + 1..8 {
                for &x in &all[a] {
                    for &y in &all[b] {
                        if !occurs(&cells, |cell| values(cell)[a] == x && values(cell)[b] == y) {
                            absent.push((a, x, b, y));
                        }
                    }
                }
            }
        }
        assert_eq!(absent, [(0, 1, 7, Told::Half as u64)], "half of one request at a time does not exist");
        assert!(cells.iter().all(belongs));
        assert_eq!(cells, covering(), "the same ones again");
    }

    #[test]
    fn unconfigured_cells_differ_only_in_what_sidecars_are_told_and_occur_once() {
        let truth = Cell { told: Told::Truth, ..corners()[0] };
        let [nothing, faster] = [Cell { told: Told::Nothing, ..truth }, Cell { mean_ms: truth.mean_ms + 1, ..truth }];
        let expected = [nothing, Cell { told: Told::Nothing, ..faster }];
        assert_eq!(unconfigured(vec![truth, nothing, faster]), expected);
    }

    #[test]
    fn all_cells_can_be_simulated_and_no_corner_occurs_twice() {
        let corners = corners();
        let names: HashSet<String> = corners.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), corners.len());
        for cell in covering().iter().chain(&corners) {
            assert!(cell.is_possible(), "{cell}");
            cell.validate().unwrap_or_else(|error| panic!("{cell}: {error}"));
        }
    }
}
