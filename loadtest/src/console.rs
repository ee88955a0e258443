//! What all commands need: their output while they run, the programs of a mesh, and the place of
//! files.

use anyhow::Context;
use bloc_mesh::Tools;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;

/// A progress bar with a label before it; silent if standard error is no terminal.
pub fn bar(label: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<36} {bar:24} {pos:>3}/{len:<3} {msg}");
    let bar = ProgressBar::new(0).with_prefix(label);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// The directory of a run under `target/lab/`.
pub fn run_directory(name: &str) -> PathBuf {
    bloc_mesh::target_directory().join("lab").join(format!("{name}-{}", std::process::id()))
}

/// The command that runs now, as a user would type it.
pub fn this_command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("bloc-lab {}", arguments.join(" "))
}

/// The programs beside this one.
pub fn tools() -> anyhow::Result<Tools> {
    let lab = std::env::current_exe().context("where this program is")?;
    Ok(Tools::beside(&lab)?)
}
