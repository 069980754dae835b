//! The components of a client in one process: its nodes, and the monitor of its leases. A failure of the monitor or of
//! the background thread ends all leases, and the next command starts new components.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::acquire::Acquirer;
use crate::clock::Clock;
use crate::drivers::RuntimeDriver;
use crate::error::LossReason;
use crate::fairness::Fairness;
use crate::lease::{LeaseState, Leases, Registry, monitor};
use crate::node::{
    Changes, ClusterNode, MemoryNode, Needs, Node, RedisNode, RunIds, Target, Watch,
};
use crate::options::Address;
use crate::options::client::Config;
use crate::quorum::Nodes;
use crate::runtime::{Dependent, Owned, background, depend};
use crate::telemetry::{Counts, Logged, Stats, Throttle, log, metrics};

/// Whether the monitor panicked, or the background thread ended. The components of the client then no longer renew
/// leases or report losses.
struct Failure {
    has_failed: AtomicBool,
    /// Notified after it, and after the client was closed. It ends the calls that wait.
    calls: Notify,
    /// Weak, because it would keep the monitor from ending. The components use descriptors.
    leases: Owned<Weak<Leases>>,
}

impl Failure {
    fn new(leases: &Arc<Leases>) -> Self {
        let leases = Owned::new(Arc::downgrade(leases));
        Self { has_failed: AtomicBool::new(false), calls: Notify::new(), leases }
    }

    /// Ends every lease and every call.
    fn report(&self) {
        let is_first = !self.has_failed.swap(true, Ordering::AcqRel);
        // The monitor also panics if it cannot wake another task.
        background::has_lost_descriptors();
        if is_first && !self.leases.is_ours() {
            log::event!(
                Error,
                Node,
                {},
                "the program closed descriptors of redlock (os.closerange, closefrom), so its leases are lost. Close \
                 descriptors before the first use of redlock"
            );
        }
        // The order matters: a caller that acquires again after this notification must get new components.
        let leases = self.leases.upgrade();
        leases.iter().for_each(|leases| lose_all(&leases.registry, LossReason::Internal));
        self.calls.notify_waiters();
    }

    fn is_reported(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}

impl Dependent for Failure {
    fn thread_ended(&self) {
        // Otherwise the thread of earlier components has ended.
        if !self.leases.is_ours() {
            self.report();
        }
    }
}

/// The components of a client in this process. A forked child creates its own.
pub(crate) struct Running {
    failure: Arc<Failure>,
    /// Not dropped without the descriptors: its end would wake tasks of a thread that cannot be woken.
    pub(crate) acquirer: Owned<Arc<Acquirer>>,
}

impl Running {
    /// Starts the monitor, and creates the nodes. A node connects when it gets its first command.
    pub(crate) fn start(config: &Config, counts: Arc<Counts>) -> Self {
        let kept = Arc::clone(&counts);
        let (running, monitor) =
            Self::assemble(&config.clock, config.connect_timeout, counts, |watch| {
                // All nodes of the client share it, because it detects that two of them are the same server.
                let run_ids = Arc::new(RunIds::default());
                let runtime = config.runtime.clone().unwrap_or_else(RuntimeDriver::for_first);
                let connect = |address| connect(address, config, &runtime, watch, &run_ids, &kept);
                config.nodes.iter().map(connect).collect()
            });
        let failure = Arc::clone(&running.failure);
        let dependent = Arc::downgrade(&failure);
        depend(dependent);
        // The monitor ends once the watch is dropped and no further changes can arrive.
        let monitor = async move {
            // All leases depend on this task. If it panics, none of them may continue as if it were still monitored.
            if AssertUnwindSafe(monitor).catch_unwind().await.is_err() {
                failure.report();
            }
        };
        background::spawn(monitor).detach();
        let acquirer = Arc::downgrade(&running.acquirer);
        metrics::watch(&running.leases().counts, move |stats| {
            acquirer.upgrade().into_iter().for_each(|acquirer| add_to(&acquirer, stats));
        });
        running
    }

    /// Whether the monitor still runs. If not, the next command starts new components.
    pub(crate) fn works(&self) -> bool {
        !self.failure.is_reported() && self.acquirer.is_ours()
    }

    /// Completes when the components have failed.
    pub(crate) async fn failed(&self) {
        self.ended(|| false).await;
    }

    /// Completes when the components have failed, or when the client `is_closed`.
    pub(crate) async fn ended(&self, is_closed: impl Fn() -> bool) {
        loop {
            let mut notified = std::pin::pin!(self.failure.calls.notified());
            // Registers before the check, so that a notification in between is not missed.
            notified.as_mut().enable();
            if self.failure.is_reported() || is_closed() {
                return;
            }
            notified.await;
        }
    }

    /// Has the waiting calls check whether the client is closed.
    pub(crate) fn notify_calls(&self) {
        self.failure.calls.notify_waiters();
    }

    /// Assembles the components for these nodes. Returns the monitor too, which the caller must run.
    pub(crate) fn assemble(
        clock: &Arc<dyn Clock>,
        connect_timeout: Duration,
        counts: Arc<Counts>,
        nodes: impl FnOnce(&Arc<Watch>) -> Vec<Arc<dyn Node>>,
    ) -> (Self, Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The watch owns the sending side of the changes. The monitor ends when the watch is dropped.
        let changes = Arc::new(Changes::default());
        let watch = Arc::new(Watch::new(Arc::clone(&changes)));
        let registry = Arc::new(Registry::new());
        let nodes = Arc::new(Nodes::new(nodes(&watch), Arc::clone(clock), connect_timeout));
        let monitor = monitor(Arc::clone(&registry), Arc::clone(clock), changes);
        let fairness = Fairness::new(nodes.list.len());
        let leases = Leases {
            clock: Arc::clone(clock),
            watch,
            registry,
            counts,
            fairness,
            long: Logged::default(),
            doubtful: Logged::default(),
            longest: AtomicU64::default(),
            unconfirmed: Throttle::default(),
        };
        let leases = Arc::new(leases);
        let failure = Arc::new(Failure::new(&leases));
        let acquirer = Owned::new(Arc::new(Acquirer::new(leases, nodes)));
        let running = Self { failure, acquirer };
        (running, Box::pin(monitor))
    }

    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.acquirer.leases
    }

    /// Ends every lease, because the client was closed.
    ///
    /// Nothing is deleted while the caller's code may still run. The keys expire when their TTL ends, or are deleted
    /// when the caller's scope ends.
    pub(crate) fn close(&self) {
        lose_all(&self.leases().registry, LossReason::Closed);
        // Again, for a call that began to wait while the client was being closed.
        self.notify_calls();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have closed them since they were last looked at.
        background::has_lost_descriptors();
    }
}

/// Adds the current number of held leases and of acquires under way.
pub(crate) fn add_to(acquirer: &Acquirer, stats: &mut Stats) {
    let leases = acquirer.leases.registry.leases();
    let held = leases.iter().filter(|state| state.is_held()).count();
    (stats.held, stats.waiting) = (held as u64, acquirer.callers() as u64);
}

/// Ends every lease for this reason and notifies its holder.
fn lose_all(registry: &Registry<LeaseState>, reason: LossReason) {
    registry.leases().iter().for_each(|state| state.lose(reason));
}

/// Creates a node. It does not connect before its first command.
fn connect(
    address: &Address,
    config: &Config,
    runtime: &Arc<RuntimeDriver>,
    watch: &Arc<Watch>,
    run_ids: &Arc<RunIds>,
    counts: &Arc<Counts>,
) -> Arc<dyn Node> {
    let (clock, watch) = (Arc::clone(&config.clock), Arc::clone(watch));
    let guard = config.guard;
    let key_prefix = config.key_prefix.clone();
    let needs = Needs { key_prefix, durability: config.durability };
    let (run_ids, runtime) = (Arc::clone(run_ids), Some(Arc::clone(runtime)));
    let counts = Arc::clone(counts);
    let target = |route| Target { counts, ..Target::alone(route, guard, needs, run_ids) };
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
