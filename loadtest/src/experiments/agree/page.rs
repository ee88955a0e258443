//! The table that compares simulator and mesh.

use super::Agreement;
use crate::report::{plain_row, plain_table};
use comfy_table::Table;

/// Mesh, simulator and their ratio, a line for each case.
pub fn agreement_table(agreements: &[Agreement]) -> Table {
    let mut table = plain_table(&[
        "case",
        "p50 mesh",
        "simulator",
        "ratio",
        "p99 mesh",
        "simulator",
        "ratio",
        "by chance",
        "attempts mesh",
        "simulator",
        "ratio",
        "",
    ]);
    for one in agreements {
        let [p50, p99, attempts] = one.ratios();
        let [least, most] = one.scatter_ms;
        let values = [
            format!("{:.1}", one.mesh_ms[0]),
            format!("{:.1}", one.simulated_ms[0]),
            format!("{p50:.3}"),
            format!("{:.1}", one.mesh_ms[1]),
            format!("{:.1}", one.simulated_ms[1]),
            format!("{p99:.3}"),
            format!("{least:.0} to {most:.0}"),
            format!("{:.2}", one.attempts[0]),
            format!("{:.2}", one.attempts[1]),
            format!("{attempts:.3}"),
            if one.holds() { "agrees" } else { "OFF" }.to_owned(),
        ];
        table.add_row(plain_row([one.name.clone()], values));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_each_disagreement() {
        let agreement = |p99, attempts| Agreement {
            name: "bids-bid-40".into(),
            mesh_ms: [91.0, p99],
            simulated_ms: [90.0, 160.0],
            scatter_ms: [150.0, 171.0],
            attempts: [attempts, 2.0],
        };
        let text = agreement_table(&[agreement(164.0, 2.04), agreement(200.0, 2.0), agreement(160.0, 2.5)]).to_string();
        assert_eq!((text.matches("agrees").count(), text.matches("OFF").count()), (1, 2), "{text}");
        assert!(text.contains("1.020"), "{text}");
        assert!(text.contains("1.011") && text.contains("1.250") && text.contains("150 to 171"), "{text}");
    }
}
