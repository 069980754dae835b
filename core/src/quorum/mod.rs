//! Sends a command to every node at once, counts the replies, and stops as soon as the outcome is certain.
//!
//! A quorum is more than half of the nodes. Any two quorums share a node, which is what Redlock's mutual exclusion
//! relies on (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>). For a single node, the
//! quorum is one.

mod collect;
mod nodes;
mod tally;

pub(crate) use collect::{Collect, Counts};
pub(crate) use nodes::Nodes;
pub use tally::{Tally, drift};
