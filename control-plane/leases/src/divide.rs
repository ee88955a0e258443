//! Divides a limit between nodes.

use crate::part::Part;

/// The need of a node; see [`Ask`](crate::Ask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub least: Part,
    pub wants: Part,
}

impl Need {
    pub fn all(self) -> Part {
        self.wants.max(self.least)
    }
}

/// Divides `total` between nodes with these needs.
///
/// - If there is enough, each gets what it wants, and an equal part of the rest.
/// - Otherwise each gets its minimum, and what it wants up to a level that is the same for all.
/// - If there is not enough for the minimums, each gets the same fraction of its minimum.
pub fn divide(total: Part, needs: &[Need]) -> Vec<Part> {
    let all: u64 = needs.iter().map(|need| u64::from(need.all().get())).sum();
    let least: u64 = needs.iter().map(|need| u64::from(need.least.get())).sum();
    let (total, count) = (u64::from(total.get()), needs.len().max(1) as u64);
    let part = |millionths: u64| Part::millionths(u32::try_from(millionths).unwrap_or(u32::MAX));
    if all <= total {
        let rest = part((total - all) / count);
        return needs.iter().map(|need| need.all().plus(rest)).collect();
    }
    if least > total {
        return needs.iter().map(|need| part(u64::from(need.least.get()) * total / least)).collect();
    }
    let level = level(total, needs);
    needs.iter().map(|need| at(*need, level)).collect()
}

fn at(need: Need, level: Part) -> Part {
    need.wants.min(level).max(need.least)
}

/// The highest level at which the sum does not exceed `total`.
fn level(total: u64, needs: &[Need]) -> Part {
    let sum = |level: u32| needs.iter().map(|need| u64::from(at(*need, Part::millionths(level)).get())).sum::<u64>();
    let (mut low, mut high) = (0, u32::try_from(total).unwrap_or(u32::MAX));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if sum(middle) <= total { low = middle } else { high = middle - 1 }
    }
    Part::millionths(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(total: u32, needs: &[(u32, u32)]) -> Vec<u32> {
        let part = Part::millionths;
        let needs: Vec<Need> =
            needs.iter().map(|(least, wants)| Need { least: part(*least), wants: part(*wants) }).collect();
        divide(part(total), &needs).iter().map(|part| part.get()).collect()
    }

    #[test]
    fn enough_is_divided_by_wants_and_the_rest_evenly() {
        assert_eq!(divided(100, &[(0, 20), (0, 40)]), [40, 60]);
        assert_eq!(divided(100, &[(30, 20), (0, 50)]), [40, 60], "what is kept counts as wanted");
        assert_eq!(divided(100, &[]), [] as [u32; 0]);
    }

    #[test]
    fn too_little_is_divided_up_to_a_level() {
        assert_eq!(divided(100, &[(0, 20), (0, 70), (0, 90)]), [20, 40, 40]);
        assert_eq!(divided(100, &[(50, 60), (0, 70)]), [50, 50]);
        assert_eq!(divided(100, &[(60, 60), (0, 70), (0, 10)]), [60, 30, 10]);
    }

    #[test]
    fn less_than_they_keep_is_divided_in_proportion() {
        assert_eq!(divided(100, &[(150, 150), (50, 500)]), [75, 25]);
        assert_eq!(divided(0, &[(1, 1), (0, 5)]), [0, 0]);
    }

    #[test]
    fn never_more_than_all() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let needs: Vec<_> = (0..rng.usize(0..6)).map(|_| (rng.u32(0..500_000), rng.u32(0..2_000_000))).collect();
            let total = rng.u32(0..1_000_001);
            let parts = divided(total, &needs);
            assert!(parts.iter().map(|part| u64::from(*part)).sum::<u64>() <= u64::from(total), "{total} {needs:?}");
        }
    }
}
