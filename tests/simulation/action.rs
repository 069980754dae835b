//! The steps of a scenario: what clients do with locks, and what happens to them and to nodes.

use super::clock::Time;
use super::world::MS;

#[derive(Clone, Debug)]
pub(super) enum End {
    Release,
    Drop,
    Detach,
    /// Until it is lost.
    Keep,
}

#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) names: Vec<&'static str>,
    pub(super) ttl: u64,
    pub(super) node_timeout: Option<u64>,
    pub(super) wait: Option<u64>,
    pub(super) renew: bool,
    pub(super) max_hold: Option<u64>,
    /// Nobody else has it before.
    pub(super) min_hold: u64,
    pub(super) hold: u64,
    pub(super) extend: Option<u64>,
    pub(super) cancel: Option<u64>,
    pub(super) end: End,
    /// In the middle of the hold.
    pub(super) also: Also,
    /// It is promised that this acquire succeeds.
    pub(super) must: bool,
}

impl Use {
    pub(super) fn node_timeout(&self) -> u64 {
        self.node_timeout.unwrap_or(self.ttl / 5)
    }
}

/// What else is done with a lease.
#[derive(Clone, Debug)]
pub(super) enum Also {
    Nothing,
    /// Another lock is used under this one.
    Nested(Box<Use>),
    /// A second lease of the same token, in the same client.
    Second(Box<Use>),
    /// Another client continues it.
    HandOver(usize, Box<Use>),
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Lock {
        client: usize,
        how: Use,
    },
    /// So many times, one right after the other.
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
    /// Every lease of the client is given back under whoever holds it.
    ReleaseAll {
        client: usize,
    },
    Shutdown {
        client: usize,
        ms: u64,
    },
    Cut {
        client: usize,
        node: usize,
        ms: u64,
    },
    Slow {
        client: usize,
        node: usize,
        by: u64,
        ms: u64,
    },
    Crash {
        node: usize,
        keep: bool,
        down: u64,
    },
    Stop {
        node: usize,
        ms: u64,
    },
    /// From here on nothing that the node does reaches its replica.
    Lag {
        node: usize,
    },
    /// The node's replica takes its place. Clients hear of it within `stale` ms, and until then use the old server, which
    /// some of them are led to for so long, too; a connection takes `down` ms.
    Switch {
        node: usize,
        stale: u64,
        down: u64,
    },
    /// Nothing passes between the node's server and this replica of it.
    Isolate {
        node: usize,
        replica: usize,
        ms: u64,
    },
    /// A cluster's slot moves to this one of its servers, within some `ms`.
    Migrate {
        node: usize,
        shard: usize,
        ms: u64,
    },
    /// Another one of a cluster's servers takes the place of the slot's owner, which goes on as if nothing had happened for
    /// `stale` ms, and is cut off for `cut` ms after that.
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
    /// Another library takes a free key, for this long or without an end.
    Foreign {
        node: usize,
        name: &'static str,
        ttl: Option<u64>,
    },
    /// Once, a node says that this is the fencing token; or it was stored there by hand.
    Lie {
        node: usize,
        fence: u64,
        stored: bool,
    },
    /// Somebody deletes the keys of "a" wherever a node can be reached, and a client asks for it some time later.
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
    /// Whose votes cannot be in time over these links would go on for ever, in everybody's way.
    pub(super) fn bound_hopeless(&mut self, latency: Time) {
        if let Action::Lock { how, .. } = &mut self.action
            && how.wait.is_none()
            && how.node_timeout() * MS < 2 * latency
        {
            how.wait = Some(4000);
        }
    }
}
