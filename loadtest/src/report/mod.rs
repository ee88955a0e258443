//! How records are shown: a table for the terminal, a page for the browser, files for other tools.
//!
//! Nothing is measured here. What only one experiment shows is in its `page.rs`.

pub mod bounds;
mod chart;
mod document;
#[cfg(test)]
pub(crate) mod example;
mod files;
mod findings;
mod lines;
mod page;
mod paper;
mod part;
mod sections;
mod spread;
mod table;

pub use document::document;
pub use files::{read, write_page, write_records, write_summary};
pub use findings::{Finding, circling, findings};
pub use lines::{line, over_time};
pub use page::{Section, page};
pub use part::{Part, origin};
pub use spread::spreads;
pub use table::{plain_row, plain_table, share, table};
