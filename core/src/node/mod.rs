//! One logical Redis, as the algorithm sees it: it votes, and it tells when a key changed.
//!
//! [`redis`] is a server, whichever way it is found, or a Redis Cluster, [`memory`] lives in this process.
//!
//! The algorithm above sees nothing but this trait: what a vote is worth, and how many make a quorum, is not
//! known here, nor who waits for a lock. Nothing here retries; each question is asked once, and its answer is
//! exact or a fault.

mod address;
mod changes;
pub(crate) mod client_name;
pub(crate) mod credentials;
mod existing;
mod fault;
mod fencing;
mod memory;
mod outage;
mod redis;
mod slots;
mod vote;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub(crate) use ::redis::ConnectionInfo;
pub(crate) use address::Address;
pub(crate) use changes::{Change, Changes, Told};
pub(crate) use existing::{taken_over, unseen};
pub(crate) use fault::{Fault, Remedy};
pub(crate) use fencing::{Fencing, IMPOSSIBLE};
pub(crate) use memory::MemoryNode;
pub use memory::{advance_memory, fail_memory};
pub(crate) use outage::Outage;
pub(crate) use redis::{
    CONNECT_TIMEOUT, ClusterNode, Durability, Given, Needs, RedisNode, RunIds, Shared, Target,
};
#[cfg(test)]
pub(crate) use redis::{
    Confirm, Detour, Map, Member, Onward, Place, Purpose, Ruling, onward, pause, rested, ruling,
};
pub use redis::{Pem, TlsOptions};
pub(crate) use slots::{SLOTS, hash_tag, several_slots, slot};
pub(crate) use vote::{Claim, Expect, Extension, Holder, KEPT, Taken, Vote, VoteParams};
pub(crate) use watch::Watch;

/// An answer on its way. The command was sent when the method returned; dropping this unsends nothing.
///
/// Bound to no runtime: it may be polled anywhere. A node never lets it wait for ever, but each caller has a
/// deadline of its own, and to be late is no fault of the node's connection.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// A server that votes. Commands of one node are carried out in the order in which they were given.
///
/// Every method sends before it returns, and the answer is awaited apart: so clean-up on drop needs no task of its
/// own. A cancelled acquire sends its deletes in `Drop`, behind its votes on the same connections, and the
/// algorithm never spawns.
pub(crate) trait Node: Send + Sync {
    /// The node's URL, without its password.
    /// It names the node in errors and logs.
    fn url(&self) -> &str;

    /// Where its failed attempts and its replies are recorded; `None`: nowhere.
    fn outage(&self) -> Option<&Outage> {
        None
    }

    /// Whether changes of the key are told by push at this moment.
    /// Without it waiters ask from time to time, and a holder learns of a loss at its next renewal.
    fn pushes(&self, key: &str) -> bool;

    /// Whether there is a connection to the server of the key.
    fn is_connected(&self, _key: &str) -> bool {
        true
    }

    /// Ends once there is a connection to the server of the key, or the attempt to open one has failed.
    fn connected(&self, _key: &str) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Why it takes no first vote for the key now, if it does not: its server restarted within `restart_guard`.
    /// Only first votes are refused: extends, heals and releases always go through, or a restart would end live
    /// leases.
    fn guard_fault(&self, _key: &str) -> Option<Fault> {
        None
    }

    /// Makes the claim's keys its own, all of them or none, where nobody else has one.
    ///
    /// Safe to ask twice: keys that are this token's already are granted once more, and never live shorter for
    /// it.
    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote>;

    /// Makes the claim's keys live longer where they are its own: never shorter, and none is made.
    /// With fencing it keeps the fence from being forgotten, too.
    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension>;

    /// Deletes the claim's keys where they are still its own. `owed` is how long they live at most: a delete whose
    /// connection dies first is owed on the next one, and for so long if there is none and the client is gone.
    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool>;

    /// [`Node::release`] of keys that are probably gone: the node is not to remember them for our sake.
    ///
    /// A server that tracks what is read remembers absent keys until somebody writes them.
    fn release_late(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        self.release(claim, owed)
    }

    /// Has the claim's keys live for no longer than `stay` where they are still its own: [`Node::release`] of keys that
    /// are to stay so long, and like it in all else. Safe to ask twice, however late.
    fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Reply<bool>;

    /// Who has the key, if anybody has.
    /// Reads only: nothing that waits or holds is touched by it.
    fn inspect(&self, key: &str) -> Reply<Option<Holder>>;

    /// Deletes the keys whoever has them; true if there was one.
    ///
    /// It carries no token: what it hits is whoever's lock is there when it arrives, so it must not arrive
    /// late.
    fn force_release(&self, keys: &[String]) -> Reply<bool>;

    /// How many connections were opened to it anew, each after one that ended.
    fn reconnects(&self) -> u64 {
        0
    }

    /// Whether a delete is under way to it, or owed until it is back. What was given to it just now may not count yet.
    fn owes(&self) -> bool {
        false
    }

    /// Ends once everything that was asked before is answered; at once where nothing is on its way.
    /// An orderly end waits for it: deletes that were sent without waiting have arrived by then.
    fn drained(&self) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
