//! `summary.json`, the records behind it, and the page.

use super::page::{Section, page};
use crate::record::{Record, Row};
use serde::Deserialize;
use std::io;
use std::path::Path;

/// Writes only the rows: an array, one row per line.
///
/// # Errors
/// The file cannot be written.
pub fn write_summary(records: &[Record], file: &Path) -> io::Result<()> {
    let rows: Vec<&Row> = records.iter().map(|record| &record.row).collect();
    write_lines(&rows, file)
}

/// Writes the records; [`read`] reads them for a report.
///
/// # Errors
/// The file cannot be written.
pub fn write_records(records: &[Record], file: &Path) -> io::Result<()> {
    write_lines(records, file)
}

/// Writes the page. `command` is the command that it names as its origin, `own` the experiments
/// with their own part.
///
/// # Errors
/// The file cannot be written.
pub fn write_page(records: &[Record], command: &str, own: &[Section], file: &Path) -> io::Result<()> {
    std::fs::write(file, page(records, command, own).into_string())
}

/// Reads the output of [`write_records`] or [`write_summary`]; the latter has no distributions.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read(file: &Path) -> io::Result<Vec<Record>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Line {
        Record(Box<Record>),
        Row(Box<Row>),
    }
    let lines: Vec<Line> = serde_json::from_slice(&std::fs::read(file)?).map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidData, format!("neither records nor rows of a summary: {e}"))
    })?;
    let record = |line| match line {
        Line::Record(record) => *record,
        Line::Row(row) => Record::from(*row),
    };
    Ok(lines.into_iter().map(record).collect())
}

fn write_lines(items: &[impl serde::Serialize], file: &Path) -> io::Result<()> {
    let lines = items.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    std::fs::write(file, format!("[\n{}\n]\n", lines.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::record;
    use bloc_mesh::policy::Policy;

    #[test]
    fn reads_back_the_files_that_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file.json");
        let records = vec![record(Policy::Bloc, 40, [1.0; 4], 2.0), record(Policy::Random, 4, [1.0; 4], 2.0)];
        write_records(&records, &file).unwrap();
        assert_eq!(read(&file).unwrap(), records);
        write_summary(&records, &file).unwrap();
        assert_eq!(read(&file).unwrap()[1], Record::from(records[1].row.clone()));
        std::fs::write(&file, "[{}]").unwrap();
        assert!(read(&file).unwrap_err().to_string().starts_with("neither records nor rows"));
    }
}
