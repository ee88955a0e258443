//! `bloc-lab report`.

use crate::console::this_command;
use crate::experiments::ablation::page::SECTION;
use crate::report;
use anyhow::Context;
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;

/// Make a table and a page from the output of other commands.
#[derive(Debug, Args)]
pub struct Report {
    /// records.json of a demo, `run --record`, or a summary.json (which has no distributions)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where the page goes; default target/report.html
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Report {
    /// Reads, prints, writes.
    pub fn run(self) -> anyhow::Result<()> {
        let mut records = Vec::new();
        for file in &self.files {
            records.extend(report::read(file).with_context(|| file.display().to_string())?);
        }
        println!("{}", report::table(&records));
        let html = self.html.unwrap_or_else(|| target_directory().join("report.html"));
        report::write_page(&records, &this_command(), &[SECTION], &html)
            .with_context(|| format!("--html {}", html.display()))?;
        println!("{}", html.display());
        Ok(())
    }
}
