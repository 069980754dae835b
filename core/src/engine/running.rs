//! What works for a client in this process: its nodes, its waiters, its leases and their monitor.
//!
//! It puts the parts together and starts them, and knows nothing of what they do. The simulation puts the same
//! parts together over nodes and a clock of its own, and runs the monitor itself.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use crate::acquire::Acquirer;
use crate::clock::Clock;
use crate::config::Config;
use crate::error::LossReason;
use crate::lease::{Again, Leases, Registry, Said, State, monitor};
use crate::meter;
use crate::node::{
    Address, Changes, ClusterNode, MemoryNode, Needs, Node, RedisNode, RunIds, Target, Watch,
};
use crate::quorum::Nodes;
use crate::stats::{Counts, Stats};

/// What works for a client in this process; a forked child makes its own.
pub(crate) struct Running {
    /// The monitor panicked: nothing here renews, or tells of a loss, any more.
    failed: Arc<AtomicBool>,
    /// Where leases come from.
    pub(crate) acquirer: Acquirer,
}

impl Running {
    /// Begins: connections, which wait for their first command, and the monitor.
    pub(crate) fn start(config: &Config, counts: Arc<Counts>) -> Self {
        let (running, monitor) =
            Self::assemble((&config.clock, config.connect_timeout), counts, |watch| {
                // One for all nodes of the client: it is among them that one server may stand twice.
                let run_ids = Arc::new(RunIds::default());
                let nodes = config.nodes.iter();
                nodes.map(|address| connect(address, config, watch, &run_ids)).collect()
            });
        // Only the registry: who has all leases' parts keeps the monitor from its end.
        let registry = Arc::clone(&running.leases().registry);
        let failed = Arc::clone(&running.failed);
        // It ends by itself, once the watch is gone and with it everybody who could tell of a change.
        config.host.spawn(async move {
            // All leases depend on this one task: if it fails in spite of all, none may go on as if it were watched.
            if AssertUnwindSafe(monitor).catch_unwind().await.is_err() {
                failed.store(true, Ordering::Release);
                // In this order: whoever is told and asks again must not get the same parts.
                lose_all(&registry, LossReason::Internal);
            }
        });
        let (leases, callers) =
            (Arc::downgrade(running.leases()), running.acquirer.callers_if_any());
        meter::watch(&running.leases().counts, move |stats| {
            leases.upgrade().into_iter().for_each(|leases| add_to(&leases, callers(), stats));
        });
        running
    }

    /// Whether it still keeps leases; if not, the next use starts another.
    pub(crate) fn works(&self) -> bool {
        !self.failed.load(Ordering::Acquire)
    }

    /// The parts over these nodes, and the monitor of leases, which somebody must run.
    pub(crate) fn assemble(
        (clock, connect_timeout): (&Arc<dyn Clock>, Duration),
        counts: Arc<Counts>,
        nodes: impl FnOnce(&Arc<Watch>) -> Vec<Arc<dyn Node>>,
    ) -> (Self, Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The watch owns the telling end: its own end is what ends the monitor.
        let changes = Arc::new(Changes::default());
        let watch = Arc::new(Watch::new(Arc::clone(&changes)));
        let registry = Arc::new(Registry::new());
        let clock_of_nodes = Arc::clone(clock);
        let nodes = Nodes { list: nodes(&watch), clock: clock_of_nodes, connect_timeout };
        let nodes = Arc::new(nodes);
        let monitor = monitor(Arc::clone(&registry), Arc::clone(clock), changes);
        let (again, long) = (Again::new(), Said::default());
        let leases = Arc::new(Leases { nodes, watch, registry, counts, again, long });
        let running = Self { failed: Arc::default(), acquirer: Acquirer::new(leases) };
        (running, Box::pin(monitor))
    }

    /// The leases' part.
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.acquirer.leases
    }

    /// How many leases are held now, and how many acquires are under way; how often its nodes had to be reconnected.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        add_to(self.leases(), self.acquirer.callers(), stats);
    }

    /// The client was closed: no lease of it is renewed any more.
    ///
    /// Nothing is deleted under a body that still runs: keys live out their ttl, or go when its scope ends.
    pub(crate) fn close(&self) {
        lose_all(&self.leases().registry, LossReason::Closed);
    }
}

/// What is there now, of leases and of connections.
fn add_to(leases: &Leases, callers: usize, stats: &mut Stats) {
    let Leases { nodes, registry, .. } = leases;
    let held = registry.leases().iter().filter(|state| state.is_held()).count();
    (stats.held, stats.waiting) = (held as u64, callers as u64);
    stats.reconnects = nodes.list.iter().map(|node| node.reconnects()).sum();
}

/// Every lease is lost, and told so: nobody is left to renew them.
fn lose_all(registry: &Registry<State>, reason: LossReason) {
    registry.leases().iter().for_each(|state| state.lose(reason));
}

/// Connects to nothing: a server's first command does.
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
    match address {
        // Also where this client is started anew: its keys are there still.
        Address::Memory(memory) => Arc::new(MemoryNode::new(memory, clock, watch)),
        Address::Redis(route) => {
            let mut target = Target::alone(route.clone(), guard, needs, run_ids);
            target.runtime = runtime;
            Arc::new(RedisNode::new(target, clock, watch))
        }
        Address::Cluster(seeds) => Arc::new(ClusterNode::new(
            seeds.clone(),
            (guard, needs),
            run_ids,
            clock,
            watch,
            runtime,
        )),
    }
}
