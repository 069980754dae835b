//! Defines the node that the algorithm sees: a logical Redis that votes and reports changed keys.
//!
//! [`redis`] contains single servers, however they are found, and Redis Clusters. [`memory`] contains nodes in this
//! process.
//!
//! The algorithm uses only this trait. Nodes do not know how votes count, what a quorum is, or which callers wait for a
//! lock. A vote or an extension runs at most once, and its result is exact or an error. It is sent again only if a
//! server replied that it did not run it, such as a cluster's server that does not have the key. A delete is repeated
//! until it is confirmed, or its keys have expired.

pub(crate) mod address_map;
pub(crate) mod callback;
mod changes;
pub(crate) mod credentials;
mod existing;
mod fault;
mod fencing;
mod guarded;
mod keys;
mod label;
mod memory;
mod outage;
mod redis;
mod shared_request;
mod slots;
mod vote;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::clock::Instant;

pub(crate) use ::redis::ConnectionInfo;
pub(crate) use changes::{Change, Changes};
pub(crate) use existing::{taken_over, unseen};
pub(crate) use fault::{CONFIRMED_AFTER, Fault, Remedy};
pub(crate) use fencing::{Fencing, IMPOSSIBLE};
pub(crate) use guarded::Guarded;
pub(crate) use keys::{check_lock_key, fence_key, permits_key, sides, stored_name};
pub(crate) use label::{Label, LabelOption};
#[cfg(feature = "testing")]
pub(crate) use memory::flush_memory;
pub(crate) use memory::{Memory, MemoryNode};
pub use memory::{advance_memory, fail_memory, step_memory};
pub(crate) use outage::{Outage, Proof};
pub(crate) use redis::{
    CLIENT_NAME_RULE, CONNECT_TIMEOUT, ClusterNode, Durability, Given, Needs, Parameters,
    RedisNode, Route, RunIds, SharedSettings, Target, is_client_name, parse_cluster, parse_service,
};
pub use redis::{DefaultTrust, Pem, ServerReplies, TlsOptions};
#[cfg(feature = "simulation")]
pub(crate) use redis::{Operation, Script, script, scripts};
pub(crate) use slots::{SLOTS, hash_tag, several_slots, slot};
pub(crate) use vote::{
    Blocker, Claim, Expect, Extension, Form, Holder, KEPT_PREFIX, MAX_INSPECTED, MAX_KEYS, Places,
    Refused, ReleaseMode, SHARED_PREFIX, Side, Sides, Slots, Vote, VoteParams, WantedTurn,
};
pub(crate) use watch::Watch;

/// The pending reply to a command. The command was sent when the method returned. Dropping the reply does not cancel
/// it.
///
/// A reply is not bound to a runtime and may be polled anywhere. A node always completes it eventually. Callers have
/// their own deadlines, and a late reply is not an error of the connection.
pub(crate) type Reply<T> = BoxFuture<'static, Result<T, Fault>>;

/// A server that votes. A node runs commands in the order in which they were sent.
///
/// Every method sends before it returns, and the reply is awaited separately. Therefore cleanup on drop needs no task.
/// A cancelled acquire sends its deletes in `Drop`, after its votes on the same connections. The algorithm never spawns
/// a task.
pub(crate) trait Node: Send + Sync {
    /// Returns the node's URL without its password. Errors and logs show it.
    fn url(&self) -> &str;

    /// Returns where failed attempts and replies are recorded, or `None` if they are not.
    fn outage(&self) -> Option<&Outage> {
        None
    }

    /// Whether the node currently pushes changes of the key. Otherwise waiters poll, and a holder detects a loss at its
    /// next renewal.
    fn pushes(&self, key: &str) -> bool;

    /// Whether it is also noticed soon if the pushes no longer arrive. Waiters then rarely ask without one.
    fn is_push_checked(&self, _key: &str) -> bool {
        false
    }

    /// Whether there is a connection to the server of the key.
    fn is_connected(&self, _key: &str) -> bool {
        true
    }

    /// Whether a vote on the key can be expected within the timeout: there is a connection, and if replicas and disks
    /// must confirm votes, the last one with as much time was confirmed.
    fn votes_soon(&self, key: &str, _timeout: Duration) -> bool {
        self.is_connected(key)
    }

    /// Returns what the attempt to connect waits for, for an error. `None` if there is a connection.
    fn connecting(&self) -> Option<String> {
        None
    }

    /// Waits until there is a connection to the server of the key, or until the attempt to open one failed.
    fn connected(&self, _key: &str) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns whether the node currently takes no first vote for the key, because its server restarted within
    /// `restart_guard`.
    /// Only first votes are refused. Extends, heals and releases are always sent, because a restart must not end live
    /// leases.
    fn guarded(&self, _key: &str) -> Option<Guarded> {
        None
    }

    /// Whether a vote that was sent at `asked` still counts when a quorum is complete. It does not if the connection
    /// has ended, or if the server was replaced, because the next server may have other votes.
    fn still_counts(&self, _key: &str, _asked: Instant) -> bool {
        true
    }

    /// Acquires the claim's keys, all or none, unless another owner has one of them.
    ///
    /// Sending this twice is safe: keys that already have this token are granted again, and their TTL is never
    /// shortened.
    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote>;

    /// Extends the TTL of the claim's keys if it owns them. Never shortens the TTL and never creates a key. With
    /// fencing it also keeps the fencing token from expiring.
    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension>;

    /// Deletes the claim's keys if it still owns them, or lets them stay for a while. They live for at most `lifetime`
    /// before that. Sending this twice is safe, however late it arrives.
    ///
    /// If the connection breaks first, the delete becomes pending and is sent over the next one. After the
    /// client is dropped, a node without a connection keeps the delete for that time only. The caller waits for
    /// `timeout`, and the server may be silent for that long.
    fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        timeout: Duration,
    ) -> Reply<bool>;

    /// Asks whether the server would write a key now, with a write that has no effect because the key does not exist.
    ///
    /// Each server of a cluster is asked about another key, which begins with this one.
    fn ping(&self, key: &str, timeout: Duration) -> Reply<()> {
        let free = self.inspect(key, timeout);
        Box::pin(async move { free.await.map(drop) })
    }

    /// Returns the holder of the key, if it is held. Reads only, without any effect on waiters and holders. The caller
    /// waits for `timeout`.
    fn inspect(&self, key: &str, timeout: Duration) -> Reply<Option<Holder>>;

    /// Returns the keys that contain this text, of the values that may be those of locks. Reads only. The caller waits
    /// for `timeout` for each page.
    fn keys(&self, _containing: &str, _timeout: Duration) -> Reply<Vec<String>> {
        Box::pin(std::future::ready(Err(Fault::new("this node cannot list its keys"))))
    }

    /// Sends these commands to each server of the node, over separate connections that need no feature of locks.
    fn questions(&self, _commands: &Arc<[Vec<String>]>) -> Reply<Vec<ServerReplies>> {
        Box::pin(std::future::ready(Err(Fault::new("this node is not a server"))))
    }

    /// Whether a delete is under way or pending. A delete that was only just sent may not count yet.
    fn may_leave_keys(&self) -> bool {
        false
    }

    /// Waits until every earlier command has its reply. Returns immediately if none is under way. An orderly shutdown
    /// uses it to let the deletes arrive that were sent without waiting.
    fn drained(&self) -> Reply<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
