//! One logical Redis, as the algorithm sees it: it votes, and it tells when a key changed.
//!
//! [`redis`] is a server, [`memory`] lives in this process. What comes beside them (how a node finds its server:
//! Sentinel, Cluster) is one more [`Node`].

mod address;
mod changes;
mod fault;
mod fencing;
mod memory;
mod redis;
mod vote;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub(crate) use address::Address;
pub(crate) use changes::{Change, Changes};
pub(crate) use fault::Fault;
pub(crate) use fencing::{Fencing, IMPOSSIBLE};
pub(crate) use memory::MemoryNode;
pub use redis::TlsOptions;
pub(crate) use redis::{RedisNode, RunIds, Target, Tls};
pub(crate) use vote::{Claim, Expect, Extension, Holder, Taken, Vote, VoteParams};
pub(crate) use watch::Watch;

/// An answer on its way. The command was sent when the method returned; dropping this unsends nothing.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// A server that votes. Commands of one node are carried out in the order in which they were given.
///
/// Every method sends before it returns, and the answer is awaited apart: so clean-up on drop needs no task of its
/// own. A cancelled acquire sends its deletes in `Drop`, behind its votes on the same connections, and the
/// algorithm never spawns.
pub(crate) trait Node: Send + Sync {
    /// The node's URL, without its password.
    fn url(&self) -> &str;

    /// Whether changes of keys are told by push at this moment.
    fn pushes(&self) -> bool;

    /// Why it takes no first vote now, if it does not: it restarted within `restart_guard`.
    fn guard_fault(&self) -> Option<Fault> {
        None
    }

    /// Makes the claim's keys its own, all of them or none, where nobody else has one.
    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote>;

    /// Makes the claim's keys live longer where they are its own: never shorter, and none is made.
    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension>;

    /// Deletes the claim's keys where they are still its own. `owed` is how long they live at most: a delete whose
    /// connection dies first is owed on the next one, and for so long if there is none and the client is gone.
    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool>;

    /// [`Node::release`] of keys that are probably gone: the node is not to remember them for our sake.
    fn release_late(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        self.release(claim, owed)
    }

    /// Who has the key, if anybody has.
    fn inspect(&self, key: &str) -> Reply<Option<Holder>>;

    /// Deletes the keys whoever has them; true if there was one.
    fn force_release(&self, keys: &[String]) -> Reply<bool>;

    /// Ends once everything that was asked before is answered; at once where nothing is on its way.
    fn drained(&self) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
