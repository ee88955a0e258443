//! Starting programs: their output goes to a log, and they end with this program.

use crate::inside::program;
use anyhow::Result;
use bloc_mesh::process::{Process, Program};
use std::ffi::OsString;
use std::path::Path;

/// Starts `command` with both output streams in `<directory>/<name>.log`.
///
/// # Errors
/// It cannot be started.
pub async fn start<A: Into<OsString>>(
    name: &str,
    directory: &Path,
    command: impl IntoIterator<Item = A>,
) -> Result<Process> {
    let mut arguments: Vec<OsString> = ["-c", "exec \"$@\" >&2", "sh"].map(Into::into).to_vec();
    arguments.extend(command.into_iter().map(Into::into));
    let program = Program { name: name.to_owned(), executable: program("sh")?, arguments };
    Ok(Process::start(program, directory).await?)
}
