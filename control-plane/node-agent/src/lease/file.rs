//! What is held, on the disk.

use crate::originals::StateError;
use bloc_daemon::file::replace_on_disk;
use bloc_daemon::ranges::refused;
use bloc_leases::{MOST_COUNT, Part};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "leases.json";
/// The end of the name to which a file that cannot be understood is moved.
const UNREADABLE: &str = "unreadable.json";

/// The file. Without a node it is of an agent that did not write one.
#[derive(Deserialize)]
struct Saved {
    #[serde(default)]
    node: String,
    #[serde(flatten)]
    contents: Contents,
}

/// The same, to be written.
#[derive(Serialize)]
struct Saves<'a> {
    node: &'a str,
    #[serde(flatten)]
    contents: &'a Contents,
}

/// What the file says. A newer agent may have written more into it; that is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The agent's start.
    pub life: u64,
    /// What is held, by application; nothing, as long as not all replicas know that.
    pub parts: BTreeMap<String, Part>,
}

impl Contents {
    /// What is held of an application.
    pub fn part(&self, app: &str) -> Part {
        self.parts.get(app).copied().unwrap_or_default()
    }
}

/// The file.
#[derive(Clone, Debug)]
pub struct LeaseFile {
    path: PathBuf,
    node: String,
}

impl LeaseFile {
    /// Reads the file of this node in this directory, if there is one. One that cannot be
    /// understood is moved aside, and logged: the control plane knows what is held. What another
    /// node holds, whose disk was copied, is ignored, and logged; the next life is still a later
    /// one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(directory: &Path, node: &str) -> Result<(Self, Contents), StateError> {
        let path = directory.join(FILE);
        let failed = |error| StateError::new(&path, error);
        let contents = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Contents::default(),
            read => match understand(&read.map_err(failed)?) {
                Ok(Saved { node: other, contents }) if !other.is_empty() && other != node => {
                    tracing::warn!("{}: is of node {other}, and this is {node}: its parts are ignored", path.display());
                    Contents { parts: BTreeMap::new(), ..contents }
                }
                Ok(saved) => saved.contents,
                Err(error) => {
                    let aside = path.with_extension(UNREADABLE);
                    tracing::error!("{}: {error}; moved to {}", path.display(), aside.display());
                    fs::rename(&path, aside).map_err(failed)?;
                    Contents::default()
                }
            },
        };
        Ok((Self { path, node: node.to_owned() }, contents))
    }

    /// Writes the file, and waits until it is on the disk: others use what is given back.
    ///
    /// # Errors
    /// It cannot be written. The last one stays, or nobody knows which one is there.
    pub fn save(&self, contents: &Contents) -> Result<(), StateError> {
        let text = serde_json::to_vec_pretty(&Saves { node: &self.node, contents }).map_err(io::Error::from);
        let saved = text.and_then(|text| replace_on_disk(&self.path, &text));
        saved.map_err(|error| StateError::new(&self.path, error))
    }
}

fn understand(bytes: &[u8]) -> Result<Saved, String> {
    let saved: Saved = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    // No replica takes a later life than that.
    match saved.contents.life {
        ..MOST_COUNT => Ok(saved),
        life => Err(refused("life", life, format!("0 to {}", MOST_COUNT - 1)).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let (file, contents) = LeaseFile::open(directory.path(), "n1").unwrap();
        assert_eq!(contents, Contents::default());
        assert!(!directory.path().join(FILE).exists(), "who leases nothing has no file");
        let parts = BTreeMap::from([("shop/a".to_owned(), Part::WHOLE), ("shop/b".to_owned(), Part::ZERO)]);
        let contents = Contents { life: 1_764_200_000_000, parts };
        file.save(&contents).unwrap();
        assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1, contents);
        let text = fs::read_to_string(directory.path().join(FILE)).unwrap();
        let expected = serde_json::json!({"node": "n1", "life": 1_764_200_000_000_u64, "parts": {"shop/a": 1_000_000, "shop/b": 0}});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_is_moved_aside() {
        let directory = tempfile::tempdir().unwrap();
        let aside = directory.path().join("leases.unreadable.json");
        for text in [r#"{"life":-1}"#, r#"{"life":9007199254740991,"parts":{"shop/a":5}}"#] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1, Contents::default());
            assert!(!directory.path().join(FILE).exists());
            assert_eq!(fs::read_to_string(&aside).unwrap(), text);
        }
        fs::write(directory.path().join(FILE), r#"{"life":9007199254740990,"parts":{"shop/a":5}}"#).unwrap();
        assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1.part("shop/a").get(), 5);
    }

    #[test]
    fn what_another_node_holds_is_ignored_but_not_its_life() {
        let directory = tempfile::tempdir().unwrap();
        let (file, _) = LeaseFile::open(directory.path(), "n1").unwrap();
        let contents = Contents { life: 7, parts: BTreeMap::from([("shop/a".to_owned(), Part::WHOLE)]) };
        file.save(&contents).unwrap();
        assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1, contents);
        let expected = Contents { life: 7, parts: BTreeMap::new() };
        assert_eq!(LeaseFile::open(directory.path(), "n2").unwrap().1, expected);
    }

    #[test]
    fn what_cannot_be_written_is_an_error_with_its_path_and_the_last_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (file, mut contents) = LeaseFile::open(directory.path(), "n1").unwrap();
        file.save(&contents).unwrap();
        fs::create_dir(directory.path().join("leases.json.new")).unwrap();
        contents.life = 7;
        let error = file.save(&contents).unwrap_err().to_string();
        assert!(error.starts_with(directory.path().join(FILE).to_str().unwrap()), "{error}");
        assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1.life, 0);
    }
}
