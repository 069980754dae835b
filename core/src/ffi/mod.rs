//! Code that the Python and Node bindings share. It is not part of the public interface and may change at any time.
//!
//! - [`Described`], [`LOCK_OPTIONS`] and [`LockArgs`]: options
//! - [`Acquire`]: an acquire whose caller may be late
//! - [`Driver`] and [`Completions`]: futures of an event loop, and their results
//! - [`PerProcess`] and [`DefaultClient`]: values that exist once per process

mod acquire;
mod args;
mod client_options;
mod default_client;
mod driver;
mod options;

pub use acquire::{
    Acquire, acquired_at, advice, call_site, current_leader, extend, fence, held_by, identity,
    is_leading, note_call_site, note_owner, own_part, own_ttl, release, shared_by, undo,
};
pub use args::{
    Args, ClientArgs, LockArgs, check_lock, check_names, client, client_trusting, instead_of,
    key_prefix, lock, renamed, times,
};
pub use client_options::CLIENT_OPTIONS;
pub use default_client::{DefaultClient, default_nodes};
pub use driver::{Completions, Driver, Job};
pub use options::{Described, Kind, LOCK_OPTIONS, ONCE_OPTIONS, Row, SEMAPHORE_OPTIONS, Value};

use std::time::Duration;

use crate::client::Redlock;
use crate::error::{Error, Result};
use crate::lease::LeaseHandle;
use crate::lock::Lock;

// Items of the core that the bindings use unchanged.
pub use crate::acquire::NOT_REENTRANT;
pub use crate::clock::{Clock, Instant, Polls, Sleep, SystemClock};
pub use crate::drivers::{about_to_ask, about_to_wait, wait};
pub use crate::engine::{NodeReplies, Stored, StoredLock};
pub use crate::node::address_map::{AddressMapOption, AskAddress, HostPort};
pub use crate::node::callback::{Answer, Function};
pub use crate::node::credentials::{Ask, Credentials};
pub use crate::node::{DefaultTrust, ServerReplies, advance_memory, fail_memory, step_memory};
pub use crate::options::lock::Unit;
pub use crate::quorum::{Tally, drift};
pub use crate::runtime::background::{Observer, Task, has_lost_descriptors, observe, spawn};
pub use crate::runtime::{
    Dependent, Made, Owned, PerProcess, depend, descriptor_generation, fork_generation,
};
pub use crate::telemetry::{
    CallSite, Level, Owner, Record, Topic, Value as Field, listen, log_event, want,
};
pub use crate::text::{shown, spell_in_camel_case, spelled};

/// The locks that have keys on the nodes of the client, also those that other clients hold.
///
/// # Errors
///
/// `Unavailable` if fewer nodes than a quorum replied. `Unsupported` if the user may not run `SCAN`.
pub async fn stored_locks(client: &Redlock) -> Result<Stored> {
    client.lock("*").stored().await
}

/// Sends commands to every server of the client, over separate connections that need no feature of locks. For
/// `redlock doctor`.
///
/// # Errors
///
/// `Closed` if the client is closed.
pub async fn ask_servers(client: &Redlock, commands: Vec<Vec<String>>) -> Result<Vec<NodeReplies>> {
    client.lock("*").questions(commands).await
}

/// The options of a client that decide whether a lock works, wherever they were set, with their defaults.
#[derive(Clone, Debug)]
pub struct Applied {
    pub key_prefix: String,
    /// That of the lock.
    pub node_timeout: Duration,
    pub connect_timeout: Duration,
    pub restart_guard: Duration,
    pub min_replicas: u32,
    pub fsync: bool,
}

/// The options that apply to a lock. For `redlock doctor`.
pub fn applied(lock: &Lock) -> Applied {
    let config = lock.config();
    Applied {
        key_prefix: config.key_prefix.clone(),
        node_timeout: lock.options().node_timeout(),
        connect_timeout: config.connect_timeout,
        restart_guard: config.guard,
        min_replicas: config.durability.min_replicas,
        fsync: config.durability.fsync,
    }
}

/// Rejects a client with a node inside of this process, which excludes no other one.
///
/// # Errors
///
/// `Invalid` for `memory://`.
pub fn check_excludes_others(client: &Redlock) -> Result<()> {
    if client.nodes().iter().any(|node| node.starts_with("memory://")) {
        return Err(Error::invalid(
            "memory:// is a node inside of one process, so a command line excludes no other one by it. Use the URL of a \
             Redis server",
        ));
    }
    Ok(())
}

/// Whether to log that no quorum confirmed the release of this lease at the end of a scope. Returns the end of the
/// record.
pub fn logs_unconfirmed(lease: &LeaseHandle) -> Option<String> {
    lease.logs_unconfirmed().map(|omitted| omitted.to_string())
}
