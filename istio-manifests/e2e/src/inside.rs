//! An isolated machine: everything runs in new mount, network and process namespaces, which have no
//! route to any other network and always end with this program.
//!
//! `/etc`, `/run` and `/var/lib` are replaced there, so that the node's files affect nothing
//! outside.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// Set for the program inside.
const INSIDE: &str = "BLOC_E2E_INSIDE";
/// Where the program inside keeps its files: a file system in memory that ends with it.
pub const SCRATCH: &str = "/run/bloc-e2e";
/// The folders that are replaced; `/var/run` is a link to `/run`.
pub const REPLACED: [&str; 4] = ["/etc", "/run", "/var/lib", "/var/run"];

/// Whether this is the program inside.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// This program with these arguments, inside.
///
/// # Errors
/// The namespaces cannot be made, for want of rights.
pub fn command(arguments: &[String]) -> Result<Command> {
    let program = std::env::current_exe()?;
    let namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let may = Command::new("unshare").args(namespaces).arg("true").output().context("unshare (of util-linux)")?;
    if !may.status.success() {
        bail!("no new namespaces, this needs root: {}", String::from_utf8_lossy(&may.stderr).trim());
    }
    let mut command = Command::new("unshare");
    command.args(namespaces).arg("--").arg(program).args(arguments).env(INSIDE, "1");
    Ok(command)
}

/// Runs this program with these arguments inside, and returns its exit code.
///
/// # Errors
/// The namespaces cannot be made, for want of rights.
pub fn enter(arguments: &[String]) -> Result<ExitCode> {
    Ok(code(command(arguments)?.status()?))
}

fn code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Replaces `/etc`, `/run` and `/var/lib`, and makes the node's network: a bridge with the address
/// `address`, in CIDR notation.
///
/// # Errors
/// A step failed; the message has its output.
pub fn furnish(bridge: &str, address: &str) -> Result<()> {
    script(&format!(
        "mount -t tmpfs -o mode=755 tmpfs /run
         for folder in etc var/lib; do
           mkdir -p {SCRATCH}/new/$folder {SCRATCH}/work/$folder
           mount -t overlay overlay -o lowerdir=/$folder,upperdir={SCRATCH}/new/$folder,workdir={SCRATCH}/work/$folder /$folder
         done
         ip link set lo up
         ip link add {bridge} type bridge
         ip addr add {address} dev {bridge}
         ip link set {bridge} up"
    ))
}

/// Runs a shell script, all of whose steps must succeed.
///
/// # Errors
/// A step failed; the message has its output.
pub fn script(text: &str) -> Result<()> {
    let output = Command::new("/bin/sh").args(["-euc", text]).output()?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{}: {}\nof: {text}", output.status, String::from_utf8_lossy(&output.stderr).trim());
}

/// The full path of a program on `PATH`.
///
/// # Errors
/// It is not installed.
pub fn program(name: &str) -> Result<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned()))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not installed"))
}
