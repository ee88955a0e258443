//! The table of late binding: `reserve` beside bids, fresh looks and balancers that see everything.
//!
//! | file | contents |
//! |---|---|
//! | `design` | what is simulated: the map, the cells, and what differs in each row |
//! | `figures` | what a simulation gives, and what it costs |
//! | `page` | the tables, in Markdown and HTML |

mod design;
mod figures;
mod page;

pub use design::{Compared, Row, Section, map, sections};
pub use figures::{Costs, Figures};
pub use page::{html, markdown};
