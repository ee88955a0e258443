//! What is shown of the records: a table for the terminal, a page for the browser, files for other tools.

mod chart;
#[cfg(test)]
mod example;
mod files;
mod findings;
mod page;
mod paper;
mod sections;
mod table;

pub use files::{read, write_page, write_records, write_summary};
pub use findings::{Finding, circling, findings};
pub use page::page;
pub use table::table;
