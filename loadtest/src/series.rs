//! Many cases in a row, in one or more rounds.

use crate::case::Case;
use crate::console::{bar, run_directory, tools};
use crate::record::Record;
use crate::rounds::{Runs, by_mesh, in_round};

/// Measures the cases, round after round. The records are in the order of the cases. Every second
/// round reverses the order of the meshes, so that none always follows the same other one.
pub async fn measure(cases: &[Case], rounds: usize) -> anyhow::Result<Vec<Runs>> {
    let tools = tools()?;
    cases.iter().try_for_each(|case| tools.need(case.mesh.policy, case.mesh.has_control_plane()))?;
    let mut records: Vec<Vec<Record>> = vec![Vec::with_capacity(rounds); cases.len()];
    let (all, mut done) = (rounds * cases.len(), 0);
    for round in 0..rounds {
        let mut groups = by_mesh(cases);
        if round % 2 != 0 {
            groups.reverse();
        }
        for group in groups {
            let first = in_round(&cases[group[0]], round);
            let starting = bar(first.name());
            let mut standing = first.start(&tools, &run_directory(&first.name()), &starting).await?;
            starting.finish_and_clear();
            for place in group {
                let case = in_round(&cases[place], round);
                done += 1;
                let name = format!("{done}/{all} {}", case.name());
                let bar = bar(name.clone());
                let record = case.measure(&mut standing, &bar).await?;
                bar.finish_and_clear();
                let row = &record.row;
                eprintln!("{name}: {} ok, {} shed, {} errors", row.ok, row.shed, row.errors);
                records[place].push(record);
            }
            standing.mesh.end().await;
        }
    }
    Ok(cases.iter().cloned().zip(records).map(|(case, records)| Runs { case, records }).collect())
}
