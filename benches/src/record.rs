//! `benches/record/`: the measurements that are kept. New lines go to the end of a table, so that
//! it shows how a figure has changed.

use crate::environment::Environment;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Appends `rows` to the table in `file`, each after its environment; writes the head if the file
/// is new.
pub fn append(file: &Path, environment: &Environment, columns: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let head = line(Environment::NAMES.iter().chain(columns).copied());
    match std::fs::read_to_string(file) {
        Ok(text) if text.lines().next() != Some(head.trim_end()) => {
            let why = format!("{} has other columns than {}", file.display(), head.trim_end());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::write(file, head)?,
        Err(error) => return Err(error),
    }
    let values = environment.values();
    let lines: String = rows.iter().map(|row| line(values.iter().chain(row).map(String::as_str))).collect();
    OpenOptions::new().append(true).open(file)?.write_all(lines.as_bytes())
}

/// Quoted where a comma, a quote or a line break demands it (RFC 4180).
fn line<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let quoted = |value: &str| match value.contains([',', '"', '\n']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    };
    values.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_rows_and_refuses_other_columns() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("table.csv");
        let environment = Environment {
            date: "2026-01-31".into(),
            commit: "abc".into(),
            rustc: "rustc \"1.95\"".into(),
            processor: "Some, fast one".into(),
            cores: 2,
        };
        for value in ["1", "2"] {
            append(&file, &environment, &["bench", "ns"], &[vec!["a".into(), value.into()]]).unwrap();
        }
        let expected = "date,commit,rustc,processor,cores,bench,ns\n\
            2026-01-31,abc,\"rustc \"\"1.95\"\"\",\"Some, fast one\",2,a,1\n\
            2026-01-31,abc,\"rustc \"\"1.95\"\"\",\"Some, fast one\",2,a,2\n";
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        assert!(append(&file, &environment, &["bench", "us"], &[]).is_err());
    }
}
