//! Ask every node at once, count, stop as soon as the outcome is certain.

mod collect;
mod nodes;
mod tally;

pub(crate) use collect::{Collect, Counts};
pub(crate) use nodes::Nodes;
pub use tally::{Tally, drift};
