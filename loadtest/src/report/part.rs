//! A part of a document that a command writes, between two lines that name the command.

use crate::record::Environment;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const END: &str = "<!-- end -->";

/// The part of a document that one command writes.
#[derive(Clone, Debug)]
pub struct Part {
    document: PathBuf,
    begin: String,
}

impl Part {
    /// The part of `command` in this document.
    ///
    /// # Errors
    /// The document cannot be read, or has no such part.
    pub fn find(document: &Path, command: &str) -> io::Result<Self> {
        let part = Self { document: document.to_owned(), begin: format!("<!-- written by {command} -->") };
        part.split(&std::fs::read_to_string(document)?)?;
        Ok(part)
    }

    /// Replaces it by `text`.
    ///
    /// # Errors
    /// The document cannot be read or written, or has no such part any more.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let whole = std::fs::read_to_string(&self.document)?;
        let (before, after) = self.split(&whole)?;
        std::fs::write(&self.document, format!("{before}\n\n{}\n\n{after}", text.trim()))
    }

    /// What comes before the part, with its first line, and what comes after it, with its last
    /// line.
    fn split<'a>(&self, whole: &'a str) -> io::Result<(&'a str, &'a str)> {
        let at = whole.find(&self.begin).and_then(|begin| {
            let begin = begin + self.begin.len();
            Some((begin, begin + whole[begin..].find(END)?))
        });
        let (begin, end) = at.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("no lines `{}` and `{END}`", self.begin))
        })?;
        Ok((&whole[..begin], &whole[end..]))
    }
}

/// Which run the figures are from.
pub fn origin(environment: &Environment, command: &str) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let day = now.split('T').next().unwrap_or_default();
    let Environment { processor, cores, envoy, lab } = environment;
    format!("Measured on {day} by `{command}` (bloc-lab {lab}, Envoy {envoy}, {cores} cores of {processor}).")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_the_part_of_its_command() {
        let document = tempfile::NamedTempFile::new().unwrap();
        let text = "# Title\n\n<!-- written by bloc-lab x -->\n\nold\n\n<!-- end -->\n\n<!-- written by bloc-lab y -->\n<!-- end -->\n";
        std::fs::write(document.path(), text).unwrap();
        Part::find(document.path(), "bloc-lab x").unwrap().write("new\n").unwrap();
        assert_eq!(std::fs::read_to_string(document.path()).unwrap(), text.replace("old", "new"));
        let error = Part::find(document.path(), "bloc-lab z").unwrap_err().to_string();
        assert_eq!(error, "no lines `<!-- written by bloc-lab z -->` and `<!-- end -->`");
    }
}
