//! Ask every node at once, count, stop as soon as the outcome is certain.
//!
//! A quorum is more than half of the nodes: any two have a node in common, which is all that Redlock's
//! exclusion rests on (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>). One node is
//! a quorum of one.

mod collect;
mod nodes;
mod tally;

pub(crate) use collect::{Collect, Counts};
pub(crate) use nodes::Nodes;
pub use tally::{Tally, drift};
