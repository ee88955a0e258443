//! Command-line options of both programs.

use crate::file;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::fmt::{self, Display};
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// The log on standard error.
#[derive(Args, Clone, Debug)]
pub struct LogOptions {
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,

    /// Log level (error, warn, info, debug), or directives such as kube=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: EnvFilter,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { log_format: LogFormat::Text, log: EnvFilter::new("info") }
    }
}

#[derive(Clone, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LogOptions {
    pub fn start(&self) {
        let log = tracing_subscriber::fmt().with_env_filter(self.log.clone()).with_writer(std::io::stderr);
        match self.log_format {
            LogFormat::Text => log.with_ansi(false).init(),
            LogFormat::Json => log.json().init(),
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct ListenOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "IP:PORT")]
    pub listen: SocketAddr,

    /// Write ip:port to this file once the server listens
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
}

impl ListenOptions {
    /// Removes the address file of an earlier run, which a reader would take as "listening".
    pub fn remove_file(&self) -> Result<()> {
        let Some(file) = &self.address_file else { return Ok(()) };
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{}: cannot be removed", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// Listens, and writes the address to the log and the file. `served` is for the log.
    pub async fn bind(&self, served: &str) -> Result<TcpListener> {
        let listen = self.listen;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        tracing::info!(%address, served, "listening");
        if let Some(file) = &self.address_file {
            let written = file::replace(file, format!("{address}\n").as_bytes());
            written.with_context(|| format!("{}: cannot be written", file.display()))?;
        }
        Ok(listener)
    }
}

/// `file:PATH` or `kubernetes`, the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Kubernetes,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            None if text == "kubernetes" => Ok(Self::Kubernetes),
            _ => Err("expected file:PATH or kubernetes".to_owned()),
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Kubernetes => f.write_str("kubernetes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_or_kubernetes() {
        for text in ["file:a", "file:a:b", "kubernetes"] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in ["", "file:", "file", "kubernetes:", "other:a"] {
            assert_eq!(text.parse::<Source>().unwrap_err(), "expected file:PATH or kubernetes", "{text}");
        }
    }
}
