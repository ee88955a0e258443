//! How records are shown: a table for the terminal, a page for the browser, files for other tools.
//!
//! Nothing is measured here. The modules beside this folder make the records.

mod ablation;
mod chaos;
mod chart;
mod claims;
mod comparisons;
#[cfg(test)]
pub(crate) mod example;
mod experiment_pages;
mod files;
mod findings;
mod lines;
mod page;
mod paper;
mod sections;
mod soak;
mod spread;
mod table;

pub use ablation::ablation_table;
pub use chaos::{chaos_page, chaos_table, verdict};
pub use claims::{candidate_table, claim_table};
pub use comparisons::agreement_table;
pub use experiment_pages::{estimator_page, estimator_table, joining_line, joining_page};
pub use files::{read, write_page, write_records, write_summary};
pub use findings::{Finding, circling, findings};
pub use page::page;
pub use soak::{soak_page, soak_table};
pub use spread::spreads;
pub use table::table;
