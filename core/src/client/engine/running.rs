//! Assembles and starts the components of a client in this process: nodes, waiters, leases and the monitor.
//!
//! The simulation assembles the same components with its own nodes and clock, and runs the monitor itself.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;

use crate::acquire::Acquirer;
use crate::client::config::Config;
use crate::clock::Clock;
use crate::error::LossReason;
use crate::fairness::Fairness;
use crate::lease::{Leases, Logged, Registry, State, monitor};
use crate::node::{
    Address, Changes, ClusterNode, MemoryNode, Needs, Node, RedisNode, RunIds, Target, Watch,
};
use crate::quorum::Nodes;
use crate::telemetry::{Counts, Stats, metrics};

/// The components of a client in this process. A forked child creates its own.
pub(crate) struct Running {
    /// Whether the monitor panicked. These components then no longer renew leases or report losses.
    failed: Arc<AtomicBool>,
    /// Acquires leases.
    pub(crate) acquirer: Acquirer,
}

impl Running {
    /// Starts the monitor, and creates the nodes. A node connects when it gets its first command.
    pub(crate) fn start(config: &Config, counts: Arc<Counts>) -> Self {
        let (running, monitor) =
            Self::assemble((&config.clock, config.connect_timeout), counts, |watch| {
                // All nodes of the client share it, because it detects that two of them are the same server.
                let run_ids = Arc::new(RunIds::default());
                let nodes = config.nodes.iter();
                nodes.map(|address| connect(address, config, watch, &run_ids)).collect()
            });
        // Captures only the registry. A reference to all of `Leases` would keep the monitor from ending.
        let registry = Arc::clone(&running.leases().registry);
        let failed = Arc::clone(&running.failed);
        // The monitor ends once the watch is dropped and no further changes can arrive.
        config.host.spawn(async move {
            // All leases depend on this task. If it panics, none of them may continue as if it were still monitored.
            if AssertUnwindSafe(monitor).catch_unwind().await.is_err() {
                failed.store(true, Ordering::Release);
                // The order matters: a caller that acquires again after this notification must get new components.
                lose_all(&registry, LossReason::Internal);
            }
        });
        let (leases, callers) =
            (Arc::downgrade(running.leases()), running.acquirer.callers_if_any());
        metrics::watch(&running.leases().counts, move |stats| {
            leases.upgrade().into_iter().for_each(|leases| add_to(&leases, callers(), stats));
        });
        running
    }

    /// Whether the monitor still runs. If not, the next command starts new components.
    pub(crate) fn works(&self) -> bool {
        !self.failed.load(Ordering::Acquire)
    }

    /// Assembles the components for these nodes. Returns the monitor too, which the caller must run.
    pub(crate) fn assemble(
        (clock, connect_timeout): (&Arc<dyn Clock>, Duration),
        counts: Arc<Counts>,
        nodes: impl FnOnce(&Arc<Watch>) -> Vec<Arc<dyn Node>>,
    ) -> (Self, Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The watch owns the sending side of the changes. The monitor ends when the watch is dropped.
        let changes = Arc::new(Changes::default());
        let watch = Arc::new(Watch::new(Arc::clone(&changes)));
        let registry = Arc::new(Registry::new());
        let clock_of_nodes = Arc::clone(clock);
        let nodes = Nodes { list: nodes(&watch), clock: clock_of_nodes, connect_timeout };
        let nodes = Arc::new(nodes);
        let monitor = monitor(Arc::clone(&registry), Arc::clone(clock), changes);
        let (long, unconfirmed) = (Logged::default(), Mutex::default());
        let fairness = Fairness::new(nodes.list.len());
        let leases = Leases { nodes, watch, registry, counts, fairness, long, unconfirmed };
        let leases = Arc::new(leases);
        let running = Self { failed: Arc::default(), acquirer: Acquirer::new(leases) };
        (running, Box::pin(monitor))
    }

    /// Returns the leases and what they share.
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.acquirer.leases
    }

    /// Adds the number of held leases, of acquires under way, and of reconnects of the nodes.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        add_to(self.leases(), self.acquirer.callers(), stats);
    }

    /// Ends every lease, because the client was closed.
    ///
    /// Nothing is deleted while the caller's code may still run. The keys expire when their TTL ends, or are deleted
    /// when the caller's scope ends.
    pub(crate) fn close(&self) {
        lose_all(&self.leases().registry, LossReason::Closed);
    }
}

/// Adds the current number of leases, callers and reconnects.
fn add_to(leases: &Leases, callers: usize, stats: &mut Stats) {
    let Leases { nodes, registry, .. } = leases;
    let held = registry.leases().iter().filter(|state| state.is_held()).count();
    (stats.held, stats.waiting) = (held as u64, callers as u64);
    stats.reconnects = nodes.list.iter().map(|node| node.reconnects()).sum();
}

/// Ends every lease for this reason and notifies its holder.
fn lose_all(registry: &Registry<State>, reason: LossReason) {
    registry.leases().iter().for_each(|state| state.lose(reason));
}

/// Creates a node. It does not connect before its first command.
fn connect(
    address: &Address,
    config: &Config,
    watch: &Arc<Watch>,
    run_ids: &Arc<RunIds>,
) -> Arc<dyn Node> {
    let (clock, watch) = (Arc::clone(&config.clock), Arc::clone(watch));
    let guard = config.guard;
    let key_prefix = config.key_prefix.clone();
    let needs = Needs { key_prefix, durability: config.durability, scripts: config.scripts };
    let (run_ids, runtime) = (Arc::clone(run_ids), config.runtime.clone());
    let target = |route| Target::alone(route, guard, needs, run_ids);
    match address {
        // The store outlives the components. A restarted client finds its keys again.
        Address::Memory(memory) => Arc::new(MemoryNode::new(memory, clock, watch)),
        Address::Redis(route) => {
            Arc::new(RedisNode::new(target(route.clone()), runtime, clock, watch))
        }
        Address::Cluster(route) => {
            Arc::new(ClusterNode::new(target(route.clone()), runtime, clock, watch))
        }
    }
}
