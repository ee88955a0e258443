//! Measures the candidates of a kind in turn over several rounds, on meshes that all run at the
//! same time.
//!
//! The start of a mesh takes longer than a round, because fifty Envoys compile the module. An idle
//! mesh takes only some hundredths of a core.

use crate::case::Standing;
use crate::console::{bar, run_directory, tools};
use crate::experiments::goals::{Candidate, Kind, Measured, in_round};
use crate::record::Record;
use crate::rounds::Runs;
use bloc_mesh::MeshError;

/// A candidate, its mesh while that runs, and its records so far.
struct Place<'a> {
    candidate: &'a Candidate,
    standing: Option<Standing>,
    records: Vec<Record>,
}

/// Starts the meshes of all candidates, measures each once per round, and ends them. Every second
/// round reverses the order. A candidate whose mesh fails gets no further records; the others
/// continue.
///
/// # Errors
/// A program is missing.
pub async fn measure(kind: &Kind, rounds: usize) -> anyhow::Result<Vec<Measured>> {
    let tools = tools()?;
    let meshes = kind.candidates.iter().map(|candidate| &candidate.case.mesh);
    meshes.clone().try_for_each(|mesh| tools.need(mesh.policy, mesh.has_control_plane()))?;
    let mut places = Vec::new();
    for candidate in &kind.candidates {
        let name = label(kind, candidate);
        let starting = bar(name.clone());
        let started = candidate.case.start(&tools, &run_directory(&name.replace(' ', "-")), &starting).await;
        starting.finish_and_clear();
        let standing = started.inspect_err(|error| failed(&name, error)).ok();
        places.push(Place { candidate, standing, records: Vec::new() });
    }
    let (all, mut done) = (rounds * places.len(), 0);
    for round in 0..rounds {
        let mut order: Vec<&mut Place<'_>> = places.iter_mut().collect();
        if round % 2 != 0 {
            order.reverse();
        }
        for place in order {
            done += 1;
            let Some(standing) = &mut place.standing else { continue };
            let name = format!("{done}/{all} {}", label(kind, place.candidate));
            let bar = bar(name.clone());
            let measured = in_round(&place.candidate.case, round).measure(standing, &bar).await;
            bar.finish_and_clear();
            match measured {
                Ok(record) => {
                    let row = &record.row;
                    eprintln!("{name}: {} ok, {} shed, {} errors", row.ok, row.shed, row.errors);
                    place.records.push(record);
                }
                Err(error) => {
                    failed(&name, &error);
                    if let Some(standing) = place.standing.take() {
                        standing.mesh.end().await;
                    }
                }
            }
        }
    }
    let mut measured = Vec::new();
    for Place { candidate, standing, records } in places {
        if let Some(standing) = standing {
            standing.mesh.end().await;
        }
        let runs = Runs { case: candidate.case.clone(), records };
        measured.push(Measured { kind: kind.name, candidate: candidate.name, runs });
    }
    Ok(measured)
}

fn label(kind: &Kind, candidate: &Candidate) -> String {
    format!("{} {}", kind.name, candidate.name.title().replace(',', ""))
}

fn failed(name: &str, error: &MeshError) {
    eprintln!("{name}: FAILED, no further rounds: {error}");
}
