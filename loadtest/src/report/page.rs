//! The page of records, readable without the paper.

use super::chart::Series;
use super::document::frame;
use super::findings::findings;
use super::sections;
use crate::record::{Record, Row};
use maud::{Markup, html};

const COLOURS: usize = 6;

/// The part of the page about the experiments whose names begin with `prefix`. Other experiments
/// are shown with curves, bars and a table.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The beginning of the names.
    pub prefix: &'static str,
    /// The part about these records.
    pub show: fn(&[&Record]) -> Markup,
}

impl Section {
    fn contains(&self, record: &Record) -> bool {
        record.row.experiment.starts_with(self.prefix)
    }
}

/// The page about `records`, which `command` made; `own` are the experiments with their own part.
pub fn page(records: &[Record], command: &str, own: &[Section]) -> Markup {
    let others: Vec<&Record> =
        records.iter().filter(|record| !own.iter().any(|section| section.contains(record))).collect();
    let series = series(&others);
    let mut experiments: Vec<&str> = Vec::new();
    for record in &others {
        if !experiments.contains(&record.row.experiment.as_str()) {
            experiments.push(&record.row.experiment);
        }
    }
    frame(
        "BLOC on real Envoys",
        &html! {
            h1 { "Load balancing in a service mesh, measured" }
            p.soft { "Real Envoy proxies on one machine, real HTTP requests; every figure on this page comes from the run described at its end." }
            p.soft { "Each line is one run with one seed, and another seed gives other figures: " code { "make goals" } " prints medians of several seeds with their range." }
            (sections::setting(records))
            (sections::verdict(&findings(records)))
            @for experiment in experiments {
                @let those: Vec<Series<'_>> = series.iter().filter(|s| s.record.row.experiment == experiment).cloned().collect();
                (sections::experiment(experiment, &those))
            }
            @for section in own {
                @let those: Vec<&Record> = records.iter().filter(|record| section.contains(record)).collect();
                @if !those.is_empty() { ((section.show)(&those)) }
            }
            (sections::reading())
            (sections::origin(records, command))
        },
    )
}

/// The records with their names and colours. A candidate has the same colour in every experiment.
fn series<'a>(records: &[&'a Record]) -> Vec<Series<'a>> {
    let mut names: Vec<String> = Vec::new();
    let mut coloured = |record: &Row| {
        let name = candidate(record);
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        (name, at % COLOURS + 1)
    };
    records
        .iter()
        .map(|&record| {
            let (name, colour) = coloured(&record.row);
            Series { record, name, colour }
        })
        .collect()
}

/// The name of a policy with its number of frontends.
fn candidate(row: &Row) -> String {
    let (first, rest) = row.title().split_at(1);
    let frontends = if row.frontends == 1 { "frontend" } else { "frontends" };
    format!("{}{rest}, {} {frontends}", first.to_uppercase(), row.frontends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::record;
    use bloc_mesh::policy::Policy;

    #[test]
    fn a_page_is_self_contained_with_one_colour_per_candidate() {
        let mut records = vec![
            record(Policy::LeastRequest, 40, [200.0, 500.0, 900.0, 1000.0], 200.0),
            record(Policy::Bloc, 40, [490.0, 500.0, 505.0, 510.0], 200.0),
        ];
        let mut poisson = records[1].clone();
        (poisson.row.experiment, poisson.row.load) = ("poisson".into(), "poisson:180".into());
        records.insert(0, poisson);
        let colours: Vec<_> =
            series(&records.iter().collect::<Vec<_>>()).into_iter().map(|s| (s.name, s.colour)).collect();
        let expected =
            [("BLOC, 40 frontends", 1), ("Least request, two choices, 40 frontends", 2), ("BLOC, 40 frontends", 1)];
        assert_eq!(colours, expected.map(|(name, colour)| (name.to_owned(), colour)));

        let text = page(&records, "bloc-lab demo", &[]).into_string();
        assert_eq!(text.matches("<polyline").count(), 3);
        assert_eq!(text.matches("<h2>").count(), 6);
        // It loads nothing: the only address is that of a namespace.
        assert!(!text.contains("http") && !text.contains("<script") && !text.contains("url("));
    }

    #[test]
    fn rows_without_distributions_make_a_page_without_curves() {
        let row = record(Policy::Bloc, 40, [490.0, 500.0, 505.0, 510.0], 200.0).row;
        let text = page(&[Record::from(row)], "bloc-lab report summary.json", &[]).into_string();
        assert!(!text.contains("answered within a time") && text.contains("BLOC, 40 frontends"));
    }
}
