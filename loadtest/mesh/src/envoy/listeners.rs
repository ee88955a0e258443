//! Listeners that change while an Envoy runs: LDS from a file, which Envoy rereads when it is
//! replaced.

use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// The listeners of one Envoy, in a file.
#[derive(Clone, Debug)]
pub struct Listeners {
    file: PathBuf,
}

impl Listeners {
    /// The listeners of the Envoy called `name`. The file has its own folder below `directory`,
    /// since Envoy watches all of that folder.
    pub fn of(directory: &Path, name: &str) -> Self {
        Self { file: directory.join("lds").join(name).join("listeners.json") }
    }

    /// The path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Moves the listeners of `bootstrap` into the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn attach(&self, bootstrap: &mut Value) -> io::Result<()> {
        let mut listeners = bootstrap["static_resources"]["listeners"].take();
        if let Some(fields) = bootstrap["static_resources"].as_object_mut() {
            fields.remove("listeners");
        }
        for listener in listeners.as_array_mut().into_iter().flatten() {
            listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        }
        let folder = self.file.parent().unwrap_or(Path::new("."));
        bootstrap["dynamic_resources"] = json!({"lds_config": {
            "resource_api_version": "V3",
            "path_config_source": {"path": self.file, "watched_directory": {"path": folder}},
        }});
        std::fs::create_dir_all(folder)?;
        let first = json!({"version_info": "1", "resources": listeners});
        std::fs::write(self.first(), first.to_string())?;
        self.write(&first)
    }

    /// Restores the original listeners, byte for byte, except for what `edit` does to the HTTP
    /// connection manager of the first one. `|_| ()` rolls back earlier changes. The change is one
    /// step: Envoy never sees a part of it.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn change(&self, edit: impl FnOnce(&mut Value)) -> io::Result<()> {
        let read = |file: &Path| Ok::<Value, io::Error>(serde_json::from_slice(&std::fs::read(file)?)?);
        let (mut all, now) = (read(&self.first())?, read(&self.file)?);
        let version = now["version_info"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0u64);
        all["version_info"] = json!((version + 1).to_string());
        edit(&mut all["resources"][0]["filter_chains"][0]["filters"][0]["typed_config"]);
        self.write(&all)
    }

    fn first(&self) -> PathBuf {
        self.file.with_extension("first")
    }

    fn write(&self, all: &Value) -> io::Result<()> {
        let draft = self.file.with_extension("new");
        std::fs::write(&draft, all.to_string())?;
        std::fs::rename(&draft, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gateway;
    use super::*;

    #[test]
    fn a_reverted_change_gives_the_same_listeners_in_a_newer_version() {
        let directory = tempfile::tempdir().unwrap();
        let listeners = Listeners::of(directory.path(), "gateway");
        let (mut bootstrap, read) = (gateway(&[]), || {
            let text = std::fs::read(listeners.file()).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap()
        });
        listeners.attach(&mut bootstrap).unwrap();
        let first = read();
        assert_eq!(bootstrap["static_resources"]["listeners"], Value::Null);
        assert_eq!((&first["version_info"], &first["resources"][0]["name"]), (&json!("1"), &json!("gateway")));
        listeners.change(|manager| manager["stat_prefix"] = json!("other")).unwrap();
        assert_ne!(read()["resources"], first["resources"]);
        listeners.change(|_| ()).unwrap();
        assert_eq!((&read()["version_info"], &read()["resources"]), (&json!("3"), &first["resources"]));
    }
}
