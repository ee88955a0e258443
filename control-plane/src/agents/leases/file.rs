//! Records in a file, for one replica without Kubernetes: JSON, `{"namespace/name": RECORD}`.
//!
//! The file is read once, and each change rewrites it: a new file is renamed over it once it is on
//! disk. Nobody else may write it.

use super::store::{self, Known, LeaseStore, Unread, Unwritten, Writing};
use bloc_daemon::file::replace_on_disk;
use bloc_daemon::lock;
use bloc_daemon::ranges::app;
use bloc_daemon::watched;
use bloc_leases::Record;
use bloc_policy::config::ConfigError;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;

/// The version of each record. It is constant, because writes of an application never overlap.
const VERSION: &str = "1";

type Records = BTreeMap<Arc<str>, Arc<Record>>;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("{0}: cannot be read: {1}")]
    Read(PathBuf, io::Error),
    /// Its content cannot be used.
    #[error("{0}: {1}")]
    Content(PathBuf, String),
}

#[derive(Debug)]
pub struct FileLeases {
    path: PathBuf,
    records: Mutex<Records>,
    /// Held while the file is written.
    writing: tokio::sync::Mutex<()>,
}

impl FileLeases {
    /// Reads the records of a file, which need not exist.
    ///
    /// # Errors
    /// If it cannot be read or used.
    pub fn open(path: PathBuf) -> Result<Self, OpenError> {
        let mut text = Vec::new();
        let done = watched::open(&path).and_then(|mut file| file.read_to_end(&mut text));
        let records = match done {
            Ok(_) => read(&text).map_err(|reason| OpenError::Content(path.clone(), reason))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Records::new(),
            Err(error) => return Err(OpenError::Read(path, error)),
        };
        Ok(Self { path, records: Mutex::new(records), writing: tokio::sync::Mutex::default() })
    }

    fn known(&self) -> Records {
        lock(&self.records).clone()
    }

    async fn put(&self, app: Arc<str>, record: Record) -> Result<(), Unwritten> {
        let _writing = self.writing.lock().await;
        let mut records = self.known();
        records.insert(app, Arc::new(record));
        let path = self.path.clone();
        let save = move || {
            let plain: BTreeMap<&str, &Record> = records.iter().map(|(name, record)| (&**name, &**record)).collect();
            (
                serde_json::to_vec(&plain).map_err(io::Error::from).and_then(|text| replace_on_disk(&path, &text)),
                records,
            )
        };
        let (written, records) = spawn_blocking(save).await.map_err(|error| Unwritten::Failed(error.to_string()))?;
        written.map_err(|error| Unwritten::Failed(format!("{}: cannot be written: {error}", self.path.display())))?;
        *lock(&self.records) = records;
        Ok(())
    }
}

fn read(text: &[u8]) -> Result<Records, String> {
    let records: BTreeMap<String, Record> = ConfigError::read_json(text).map_err(|error| error.to_string())?;
    let checked = records.into_iter().map(|(name, record)| {
        app("name", &name).map_err(|error| error.to_string())?;
        Ok((name.as_str().into(), Arc::new(store::check(&name, record)?)))
    });
    checked.collect()
}

impl LeaseStore for FileLeases {
    fn is_ready(&self) -> bool {
        true
    }

    fn read(&self, app: &str) -> Result<Known, Unread> {
        let records = lock(&self.records);
        let known = |record: &Arc<Record>| Known { record: Arc::clone(record), version: Some(VERSION.to_owned()) };
        Ok(records.get(app).map(known).unwrap_or_default())
    }

    fn write(&self, app: Arc<str>, record: Record, _: Option<String>) -> Writing<'_> {
        self.put(app, record).boxed()
    }

    fn records(&self) -> Vec<(Arc<str>, Arc<Record>)> {
        self.known().into_iter().collect()
    }

    fn unread(&self) -> usize {
        0
    }

    fn has_node(&self, _: String) -> BoxFuture<'_, Result<bool, String>> {
        ready(Ok(true)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        store::parse("", text).unwrap()
    }

    #[tokio::test]
    async fn what_is_written_is_read_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.json");
        let file = FileLeases::open(path.clone()).unwrap();
        assert_eq!((file.read("a/b").unwrap().version, file.read("a/b").unwrap().record.is_new()), (None, true));
        let first = record(r#"{"nodes":{"n1":{"life":1,"number":2,"part":300000}}}"#);
        file.write("a/b".into(), first.clone(), None).await.unwrap();
        file.write("a/c".into(), Record::new(), None).await.unwrap();
        let file = FileLeases::open(path.clone()).unwrap();
        assert_eq!(*file.read("a/b").unwrap().record, first);
        assert_eq!(file.records().len(), 2);
        // A folder that is gone.
        drop(folder);
        let failed = file.write("a/b".into(), Record::new(), None).await.unwrap_err();
        assert!(failed.to_string().starts_with(&format!("{}: cannot be written: ", path.display())), "{failed}");
        assert_eq!(*file.read("a/b").unwrap().record, first, "what was written stays");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.json");
        for (text, reason) in [
            ("", "EOF"),
            (r#"{"a":{"nodes":{}}}"#, r#"name: "a" is not allowed; allowed: namespace/name"#),
            (r#"{"a/b":{"nodes":{"n":{"life":1,"number":0,"part":-1}}}}"#, "a/b.nodes.n.part: invalid value"),
            (
                r#"{"a/b":{"nodes":{"n":{"life":1,"number":0,"part":900000},"m":{"life":1,"number":0,"part":100001}}}}"#,
                "a/b.nodes: a sum of parts of 1000001 is not allowed; allowed: at most 1000000",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = FileLeases::open(path.clone()).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()) && error.contains(reason), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(FileLeases::open(folder.path().to_owned()).unwrap_err().to_string().contains("cannot be read"));
    }
}
