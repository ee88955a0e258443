//! What this node holds, on disk.

use crate::originals::{StateError, load};
use bloc_daemon::file::replace_on_disk;
use bloc_daemon::ranges::within;
use bloc_leases::{MOST_COUNT, Part};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FILE: &str = "leases.json";

#[derive(Serialize, Deserialize)]
struct Saved {
    node: String,
    #[serde(flatten)]
    contents: Contents,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The agent's start.
    pub life: u64,
    /// What is held, by application; 0 until all replicas know that nothing is held.
    pub parts: BTreeMap<String, Part>,
}

impl Contents {
    pub fn part(&self, app: &str) -> Part {
        self.parts.get(app).copied().unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub struct LeaseFile {
    path: PathBuf,
    node: String,
}

impl LeaseFile {
    /// Reads this node's file, if there is one. A file that cannot be parsed is moved aside: the
    /// control plane knows what is held. If another node's disk was copied, its parts are ignored,
    /// but its life counts.
    pub fn open(directory: &Path, node: &str) -> Result<(Self, Contents), StateError> {
        let path = directory.join(FILE);
        // No replica accepts a life after MOST_COUNT.
        let check = |saved: &Saved| match within("life", saved.contents.life, 0, MOST_COUNT - 1) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let contents = match load(&path, check)?.and_then(Result::ok) {
            Some(Saved { node: other, contents }) if other != node => {
                tracing::warn!("{}: written by node {other}, not {node}: its parts are ignored", path.display());
                Contents { parts: BTreeMap::new(), ..contents }
            }
            Some(saved) => saved.contents,
            None => Contents::default(),
        };
        Ok((Self { path, node: node.to_owned() }, contents))
    }

    /// Replaces the file and waits for the disk, because others will use what is given back. After
    /// an error, the file has the old or new content.
    pub fn save(&self, contents: &Contents) -> Result<(), StateError> {
        let saved = Saved { node: self.node.clone(), contents: contents.clone() };
        let text = serde_json::to_vec_pretty(&saved).map_err(|error| StateError::new(&self.path, error))?;
        replace_on_disk(&self.path, &text).map_err(|error| StateError::new(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        for text in ["{}", r#"{"node":"n1","life":9007199254740991,"parts":{"shop/a":5}}"#] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(LeaseFile::open(directory.path(), "n1").unwrap().1, Contents::default());
            assert!(!directory.path().join(FILE).exists());
            assert_eq!(fs::read_to_string(&aside).unwrap(), text);
        }
        fs::write(directory.path().join(FILE), r#"{"node":"n1","life":9007199254740990,"parts":{"shop/a":5}}"#)
            .unwrap();
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
