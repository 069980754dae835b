//! The steps of a scenario: client operations on locks, and failures of clients and nodes.

use super::clock::Time;
use super::refusals::Refusal;
use super::world::MS;
use crate::node::Side;

/// How a use ends its lease.
#[derive(Clone, Debug)]
pub(super) enum End {
    Release,
    Drop,
    Detach,
    /// The holder waits for four TTLs, in which a lease without renewal is lost.
    Keep,
}

/// One use of a lock: its options, how long it is held, and how it ends. Times are in ms.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) names: Vec<&'static str>,
    /// How many permits of a semaphore.
    pub(super) permits: u32,
    pub(super) ttl: u64,
    pub(super) node_timeout: Option<u64>,
    pub(super) wait: Option<u64>,
    pub(super) renew: bool,
    pub(super) max_hold: Option<u64>,
    /// The side of a read/write lock. `None` is a mutex.
    pub(super) side: Option<Side>,
    /// No other client acquires the lock before this time, counted from the acquire.
    pub(super) min_hold: u64,
    /// How long the lease is held.
    pub(super) hold: u64,
    /// The TTL of an extension in the middle of the hold.
    pub(super) extend: Option<u64>,
    /// When the acquire or the holder's task is cancelled.
    pub(super) cancel: Option<u64>,
    pub(super) end: End,
    /// An extra action in the middle of the hold.
    pub(super) also: Also,
    /// This acquire must succeed.
    pub(super) must: bool,
}

impl Use {
    pub(super) fn node_timeout(&self) -> u64 {
        self.node_timeout.unwrap_or(self.ttl / 5)
    }
}

/// Extra actions during a lease.
#[derive(Clone, Debug)]
pub(super) enum Also {
    Nothing,
    /// Uses another lock while this one is held.
    Nested(Box<Use>),
    /// Creates a second lease with the same token in the same client.
    Second(Box<Use>),
    /// Another client continues the lease.
    HandOver(usize, Box<Use>),
}

/// A step of a scenario. Times are in ms.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Lock {
        client: usize,
        how: Use,
    },
    /// Repeats a use this many times without a pause.
    Again {
        client: usize,
        how: Use,
        turns: u32,
    },
    Pause {
        client: usize,
        ms: u64,
    },
    CrashClient {
        client: usize,
    },
    /// Releases every lease of the client while its holders still run.
    ReleaseAll {
        client: usize,
    },
    Shutdown {
        client: usize,
        ms: u64,
    },
    /// Breaks the client's connection to a node. It reconnects after this time.
    Cut {
        client: usize,
        node: usize,
        ms: u64,
    },
    /// For `ms`, each message between the client and the node takes `by` ms longer.
    Slow {
        client: usize,
        node: usize,
        by: u64,
        ms: u64,
    },
    /// Stops a node for `down` ms. With `keep`, it has its data afterwards.
    Crash {
        node: usize,
        keep: bool,
        down: u64,
    },
    /// Freezes a node. Requests that arrive meanwhile run afterwards.
    Stop {
        node: usize,
        ms: u64,
    },
    /// From now on, the connections of the client to a node drop all bytes, without notice.
    Vanish {
        client: usize,
        node: usize,
    },
    /// A node closes one connection of the client.
    Close {
        client: usize,
        node: usize,
    },
    /// A node refuses some commands for `ms`.
    Refuse {
        node: usize,
        refusal: Refusal,
        ms: u64,
    },
    /// From now on, no write of the node reaches its replica.
    Lag {
        node: usize,
    },
    /// Promotes the node's replica. Clients learn of it within `stale` ms. Until then they use the old server, and some
    /// of them are still directed to it. Each connection is down for `down` ms.
    Switch {
        node: usize,
        stale: u64,
        down: u64,
    },
    /// Cuts the link between the node's server and this replica.
    Isolate {
        node: usize,
        replica: usize,
        ms: u64,
    },
    /// Moves a cluster's slot to this server within `ms`.
    Migrate {
        node: usize,
        shard: usize,
        ms: u64,
    },
    /// Promotes another server of a cluster in place of the slot's owner. The old owner continues as before for `stale`
    /// ms and is then cut off for `cut` ms.
    FailOver {
        node: usize,
        shard: usize,
        stale: u64,
        cut: u64,
    },
    Delete {
        node: usize,
        name: &'static str,
    },
    Flush {
        node: usize,
    },
    /// Another library acquires a free key, for this time or without a TTL.
    Foreign {
        node: usize,
        name: &'static str,
        ttl: Option<u64>,
    },
    /// A node returns this fencing token once, or an administrator stored it there.
    WrongToken {
        node: usize,
        fence: u64,
        stored: bool,
    },
    /// An administrator deletes the keys of "a" on every reachable node, or with `by_force` the client does. The client
    /// acquires "a" `after` ms later.
    Free {
        client: usize,
        after: u64,
        by_force: bool,
        how: Use,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) action: Action,
}

impl Step {
    /// Limits the wait of an acquire whose votes cannot arrive in time over these links. Otherwise it would retry
    /// forever and delay all others.
    pub(super) fn bound_hopeless(&mut self, latency: Time) {
        if let Action::Lock { how, .. } = &mut self.action
            && how.wait.is_none()
            && how.node_timeout() * MS < 2 * latency
        {
            how.wait = Some(4000);
        }
    }
}
