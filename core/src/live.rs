//! What lives behind a client once something is asked: its nodes, its queue, its keeper.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use crate::background::{self, fork_generation};
use crate::builder::Config;
use crate::clock::{Clock, Instant};
use crate::contention::Contention;
use crate::error::LossReason;
use crate::keeper::Keeper;
use crate::node::{Address, Changes, MemoryNode, Node, RedisNode, Roster, Target, Watch};
use crate::queue::Queue;
use crate::quorum::Quorum;
use crate::state::{State, Terms};

/// What works for a client in this process; a forked child makes its own.
pub(crate) struct Live {
    pub(crate) generation: u32,
    failed: Arc<AtomicBool>,
    pub(crate) quorum: Arc<Quorum>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) contention: Contention,
    pub(crate) watch: Arc<Watch>,
    pub(crate) keeper: Arc<Keeper>,
}

impl Live {
    pub(crate) fn start(config: &Config) -> Self {
        let (live, keeper) = Self::assemble(&config.clock, |watch| {
            let roster = Arc::new(Roster::default());
            let nodes = config.nodes.iter();
            nodes.map(|address| connect(address, config, watch, &roster)).collect()
        });
        let (leases, failed) = (Arc::clone(&live.keeper), Arc::clone(&live.failed));
        background::spawn(async move {
            // All leases depend on this one task: if it fails in spite of all, none may go on as if it were watched.
            if AssertUnwindSafe(keeper).catch_unwind().await.is_err() {
                failed.store(true, Ordering::Release);
                leases.leases().iter().for_each(|state| state.lose(LossReason::Internal));
            }
        })
        .detach();
        live
    }

    /// Whether it still keeps leases; if not, the next use starts another.
    pub(crate) fn works(&self) -> bool {
        self.generation == fork_generation() && !self.failed.load(Ordering::Acquire)
    }

    /// The parts over these nodes, and the keeper of leases, which somebody must run.
    pub(crate) fn assemble(
        clock: &Arc<dyn Clock>,
        nodes: impl FnOnce(&Arc<Watch>) -> Vec<Arc<dyn Node>>,
    ) -> (Self, Pin<Box<dyn Future<Output = ()> + Send>>) {
        let changes = Arc::new(Changes::default());
        let watch = Arc::new(Watch::new(Arc::clone(&changes)));
        let keeper = Arc::new(Keeper::new(Arc::clone(clock)));
        let quorum = Quorum { nodes: nodes(&watch), clock: Arc::clone(clock) };
        let nodes = quorum.nodes.len();
        let live = Self {
            generation: fork_generation(),
            failed: Arc::default(),
            quorum: Arc::new(quorum),
            queue: Arc::default(),
            contention: Contention::over(nodes),
            watch,
            keeper: Arc::clone(&keeper),
        };
        (live, Box::pin(keeper.run(changes)))
    }

    /// A lease on what a round granted, kept from now on: (deadline, ttl, whether `max_hold` cut it).
    pub(crate) fn lease(&self, terms: Terms, end: (Instant, Duration, bool)) -> Arc<State> {
        State::new(terms, end, &self.quorum, &self.watch, &self.keeper)
    }
}

fn connect(
    address: &Address,
    config: &Config,
    watch: &Arc<Watch>,
    roster: &Arc<Roster>,
) -> Arc<dyn Node> {
    let (clock, watch) = (Arc::clone(&config.clock), Arc::clone(watch));
    match address {
        Address::Memory(name) => Arc::new(MemoryNode::new(name, clock, watch)),
        Address::Server(server) => {
            let target = Target {
                url: address.redacted(),
                server: server.clone(),
                guard: config.guard,
                key_prefix: config.key_prefix.clone(),
                roster: Arc::clone(roster),
            };
            Arc::new(RedisNode::new(target, clock, watch))
        }
    }
}
