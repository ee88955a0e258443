//! The map of regimes: for which services bids gain, for which they change nothing, and where they
//! miss a claim.
//!
//! | file | contents |
//! |---|---|
//! | `cell` | one cell: a service, its load, and what the sidecars are told |
//! | `design` | the cells: each pair of values occurs, and named corners |
//! | `figures` | what one simulation gives, and medians over seeds |
//! | `judge` | the claims, and whether a cell misses one |
//! | `results` | the file of results, from which an interrupted map goes on |
//! | `page` | the map as a table, in Markdown and HTML |

mod cell;
mod design;
mod figures;
mod judge;
mod page;
mod results;

pub use cell::{Cell, Size, Speeds, Times, Told, Trouble};
pub use design::{corners, covering, unconfigured};
pub use figures::{Figures, POLICIES, Runs};
pub use judge::{Claim, Verdict, judge};
pub(crate) use page::STYLE;
pub use page::{html, markdown};
pub use results::{Key, Results};
