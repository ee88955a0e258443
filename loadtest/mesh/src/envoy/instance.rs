//! A running Envoy.

use super::bootstrap::write;
use crate::http::{self, HttpError};
use crate::process::{Process, ProcessError, Program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long an Envoy may take to get ready. Compiling the module takes 0.6 s of CPU time, and many
/// Envoys may do so at once.
const READY_LIMIT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);
const ADMIN_LIMIT: Duration = Duration::from_secs(10);

/// What can go wrong with an Envoy.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyError {
    /// Its process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its admin interface failed.
    #[error("{name}: admin interface: {source}")]
    Admin {
        /// The Envoy.
        name: String,
        /// Why there is no answer.
        source: HttpError,
    },
    /// Its admin interface gave an unexpected answer.
    #[error("{name}: unexpected answer to {path}: {answer}")]
    Answer {
        /// The Envoy.
        name: String,
        /// The path that was requested.
        path: String,
        /// The beginning of the answer.
        answer: String,
    },
    /// Its files failed.
    #[error("{name}: its bootstrap: {source}")]
    Bootstrap {
        /// The Envoy.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// A running Envoy; dropping it kills it.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
    listeners: BTreeMap<String, SocketAddr>,
}

impl Envoy {
    /// Starts Envoy with `workers` worker threads and waits until it is ready. Its bootstrap, admin
    /// address and log are `<directory>/<name>.json`, `.admin` and `.log`. Its node id is that of
    /// the bootstrap, otherwise its name.
    ///
    /// # Errors
    /// It cannot be started, refuses the bootstrap (the error shows its log) or does not get ready
    /// within a minute.
    pub async fn start(
        executable: &Path,
        directory: &Path,
        name: &str,
        bootstrap: &Value,
        workers: usize,
    ) -> Result<Self, EnvoyError> {
        Self::start_with(executable, directory, name, bootstrap, workers, &[]).await
    }

    /// The same with more command line options, such as `--drain-time-s`.
    ///
    /// # Errors
    /// Those of [`Envoy::start`].
    pub async fn start_with(
        executable: &Path,
        directory: &Path,
        name: &str,
        bootstrap: &Value,
        workers: usize,
        further: &[&str],
    ) -> Result<Self, EnvoyError> {
        let (config, admin) = (directory.join(format!("{name}.json")), directory.join(format!("{name}.admin")));
        write(bootstrap, &config).map_err(|source| EnvoyError::Bootstrap { name: name.to_owned(), source })?;
        let _ = std::fs::remove_file(&admin);
        let (workers, node) = (workers.to_string(), bootstrap["node"]["id"].as_str().unwrap_or(name));
        let options =
            ["--disable-hot-restart", "--log-level", "warn", "--concurrency", &workers, "--service-node", node];
        let mut arguments: Vec<std::ffi::OsString> = options.iter().map(Into::into).collect();
        arguments.extend(["--service-cluster".into(), "bloc-lab".into(), "--config-path".into(), config.into()]);
        arguments.extend(["--admin-address-path".into(), admin.clone().into()]);
        arguments.extend(further.iter().map(Into::into));
        let program = Program { name: name.to_owned(), executable: executable.to_owned(), arguments };
        let mut process = Process::start(program, directory).await?;
        let admin = process.written(&admin, READY_LIMIT, |text| text.parse().ok()).await?;
        let mut envoy = Self { process, admin, listeners: BTreeMap::new() };
        envoy.wait_ready().await?;
        envoy.listeners = envoy.read_listeners().await?;
        Ok(envoy)
    }

    /// Starts the Envoy of this name again with its old bootstrap. Its only listener gets the
    /// address `listener`; see [`Envoy::start`].
    ///
    /// # Errors
    /// Those of [`Envoy::start`], or its bootstrap cannot be read.
    pub async fn start_again(
        executable: &Path,
        directory: &Path,
        name: &str,
        listener: SocketAddr,
        workers: usize,
    ) -> Result<Self, EnvoyError> {
        let read = std::fs::read(directory.join(format!("{name}.json")));
        let parsed = read.and_then(|text| Ok(serde_json::from_slice::<Value>(&text)?));
        let mut bootstrap = parsed.map_err(|source| EnvoyError::Bootstrap { name: name.to_owned(), source })?;
        bootstrap["static_resources"]["listeners"][0]["address"] = super::cluster::address(listener);
        Self::start(executable, directory, name, &bootstrap, workers).await
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.process.name()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The address of the listener `name`.
    ///
    /// # Errors
    /// It has no such listener.
    pub fn listener(&self, name: &str) -> Result<SocketAddr, EnvoyError> {
        self.listeners.get(name).copied().ok_or_else(|| self.unexpected("/listeners", &format!("no listener {name}")))
    }

    /// Gets `path` from the admin interface.
    ///
    /// # Errors
    /// No answer, or not status 200.
    pub async fn admin_get(&self, path: &str) -> Result<String, EnvoyError> {
        let failed = |source| EnvoyError::Admin { name: self.name().to_owned(), source };
        let (status, body) = http::get(self.admin, path, ADMIN_LIMIT).await.map_err(failed)?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() { Ok(text) } else { Err(self.unexpected(path, &format!("{status} {text}"))) }
    }

    /// Counters and gauges whose names match the regular expression `filter`.
    ///
    /// # Errors
    /// No answer, or not a list of statistics.
    pub async fn stats(&self, filter: &str) -> Result<BTreeMap<String, u64>, EnvoyError> {
        let query = format!("&filter={}", percent_encoded(filter));
        numbers(self.admin, &query).await.map_err(|source| EnvoyError::Admin { name: self.name().to_owned(), source })
    }

    /// SIGKILL, as a crash would.
    pub async fn kill(self) {
        self.process.kill().await;
    }

    /// Ends it.
    pub async fn end(self) {
        self.process.end().await;
    }

    async fn wait_ready(&mut self) -> Result<(), EnvoyError> {
        let deadline = Instant::now() + READY_LIMIT;
        while Instant::now() < deadline {
            if matches!(http::get(self.admin, "/ready", ADMIN_LIMIT).await, Ok((status, _)) if status.is_success()) {
                return Ok(());
            }
            self.process.check()?;
            sleep(READY_POLL).await;
        }
        Err(self.process.late("readiness", READY_LIMIT).into())
    }

    async fn read_listeners(&self) -> Result<BTreeMap<String, SocketAddr>, EnvoyError> {
        let path = "/listeners?format=json";
        let text = self.admin_get(path).await?;
        let parse = || -> Option<BTreeMap<String, SocketAddr>> {
            let answer: Value = serde_json::from_str(&text).ok()?;
            // Without listeners, `listener_statuses` is missing.
            let statuses = match answer.as_object()?.get("listener_statuses") {
                Some(statuses) => statuses.as_array()?.as_slice(),
                None => &[],
            };
            statuses.iter().map(|status| Some((status["name"].as_str()?.to_owned(), socket_address(status)?))).collect()
        };
        parse().ok_or_else(|| self.unexpected(path, &text))
    }

    fn unexpected(&self, path: &str, answer: &str) -> EnvoyError {
        let answer = answer.chars().take(200).collect();
        EnvoyError::Answer { name: self.name().to_owned(), path: path.to_owned(), answer }
    }
}

/// Counters of the Envoy with the admin interface `admin`, if their names match the regular
/// expression `filter`. An answer that is not statistics counts as empty.
///
/// # Errors
/// No answer.
pub async fn counters(admin: SocketAddr, filter: &str) -> Result<BTreeMap<String, u64>, HttpError> {
    numbers(admin, &format!("&type=Counters&filter={}", percent_encoded(filter))).await
}

async fn numbers(admin: SocketAddr, query: &str) -> Result<BTreeMap<String, u64>, HttpError> {
    let (_, body) = http::get(admin, &format!("/stats?format=json{query}"), ADMIN_LIMIT).await?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let numbers = answer["stats"].as_array().into_iter().flatten();
    Ok(numbers.filter_map(|stat| Some((stat["name"].as_str()?.to_owned(), stat["value"].as_u64()?))).collect())
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn socket_address(status: &Value) -> Option<SocketAddr> {
    let address = &status["local_address"]["socket_address"];
    let port = u16::try_from(address["port_value"].as_u64()?).ok()?;
    Some(SocketAddr::new(address["address"].as_str()?.parse().ok()?, port))
}
