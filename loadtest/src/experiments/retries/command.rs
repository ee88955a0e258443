//! `bloc-lab retries`.

use crate::console::{bar, run_directory, tools};
use crate::experiments::retries::{CASES, Stand, Table};
use anyhow::bail;
use bloc_mesh::policy::Policy;
use clap::Args;

/// Count how often a failing application receives a request: stock Envoy beside the filters.
#[derive(Debug, Args)]
pub struct Retries {}

impl Retries {
    /// Sends the requests, prints the table.
    pub async fn run(self) -> anyhow::Result<()> {
        let bar = bar("retries".into());
        bar.set_length(CASES.len() as u64);
        let tools = tools()?;
        tools.need(Policy::Bid, false)?;
        let stand = Stand::start(&tools.envoy, &tools.module, &run_directory("retries")).await?;
        let mut table = Table::default();
        for case in CASES {
            let courses = stand.see(&case).await?;
            table.add(case, courses);
            bar.inc(1);
        }
        stand.end().await;
        bar.finish_and_clear();
        println!("attempts at the application, what the client gets, and after how long\n\n{table}");
        let differences = table.differences();
        if !differences.is_empty() {
            bail!("not as stock Envoy:\n{}", differences.join("\n"));
        }
        Ok(())
    }
}
