//! The engine behind a client: its options, the components that run in this process, and the phase of its shutdown.
//!
//! A client and its locks share one engine. Nothing runs before the first use. A forked child starts its own
//! components.
//!
//! Each operation is implemented elsewhere: acquiring in `acquire`, held leases in `lease`. This module adds the end of
//! a client. A client that shuts down rejects new commands, and a closed client returns no lease.

mod running;
mod shutdown;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::acquire::{Request, acquire, attach, try_acquire};
use crate::client::config::Config;
use crate::error::{Error, LossReason, Result, seconds};
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::lock::options::LONG_TTL;
use crate::lock::{Inspection, inspection};
use crate::node::{Claim, KEPT_PREFIX};
use crate::quorum::{Collect, Counts as Votes};
use crate::runtime::background;
use crate::runtime::{ForkSafe, Made, PerProcess};
use crate::telemetry::{Counts, Stats, log};

pub(crate) use running::Running;

/// A client's engine.
pub(crate) struct Engine {
    /// The validated options of the client.
    pub(crate) config: Config,
    /// The components of this process. Created by the first command and removed when the client is closed.
    running: PerProcess<Running>,
    /// A [`Phase`]. The value never decreases.
    phase: AtomicU8,
    /// Notified at [`Phase::Closed`] to end the waiting acquires.
    ///
    /// A forked child creates its own. If a thread of the parent held its lock during the fork, the lock would stay
    /// locked in the child.
    closing: PerProcess<Notify>,
    /// The statistics of this process.
    counts: PerProcess<Arc<Counts>>,
    /// The longest TTL requested so far, in seconds.
    ///
    /// Only a longer TTL logs the warning again.
    longest: AtomicU64,
}

/// The phases of a client's shutdown.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// The client accepts commands.
    Open,
    /// New commands fail. Acquires that began earlier may still return a lease.
    Draining,
    /// No acquire returns a lease.
    Closed,
}

impl Engine {
    /// Creates an engine. It starts nothing.
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            running: PerProcess::new(),
            phase: AtomicU8::new(Phase::Open as u8),
            closing: PerProcess::new(),
            counts: PerProcess::new(),
            longest: AtomicU64::new(0),
        }
    }

    /// Creates an engine that uses existing components.
    #[cfg(test)]
    pub(crate) fn over(config: Config, running: Running) -> Self {
        let engine = Self::new(config);
        drop(engine.running.replace(running));
        engine
    }

    /// Returns the components of this process, and starts them if necessary. `key` names the lock in an error.
    fn start(&self, key: impl Fn() -> String) -> Result<Arc<Made<Running>>> {
        self.start_called(self.is_open(), key)
    }

    /// Does the same as [`Engine::start`]. `open` tells whether the client was open when the command was called.
    fn start_called(&self, open: bool, key: impl Fn() -> String) -> Result<Arc<Made<Running>>> {
        if !open || self.is_closed() {
            return Err(Error::closed(&key()));
        }
        // If the monitor failed, all components are replaced. The leases it watched are already lost.
        let running = self.running.get_or_try_make(Running::works, || {
            // Starts the background thread here, because this is where a failure can still be returned as an error.
            background::handle().map_err(|error| Error::no_thread(&key(), &error))?;
            Ok(Running::start(&self.config, self.counts()))
        })?;
        // The client may have been closed during the start.
        if self.is_closed() { Err(Error::closed(&key())) } else { Ok(running) }
    }

    fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts.get_or_make(Arc::default))
    }

    /// Returns the statistics of this process.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counts().read();
        if let Some(running) = self.running() {
            running.add_to(&mut stats);
        }
        stats
    }

    /// Returns the components of this process, if a command has started them.
    pub(crate) fn running(&self) -> Option<Arc<Made<Running>>> {
        self.running.get()
    }

    /// Acquires the lock within `wait`.
    ///
    /// Dropping the future at any await point leaves no key behind.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async function holds twice what it was called with"
    )]
    pub(crate) fn acquire(
        self: Arc<Self>,
        request: Result<Arc<Request>>,
        wait: Option<Duration>,
        owner: Option<Owner>,
    ) -> impl Future<Output = Result<Lease>> + Send + 'static {
        // Read when the function is called: an event loop may first poll the future after a later call of `shutdown`.
        let open = self.is_open();
        async move {
            let request = &*request?;
            self.warn_if_long(request);
            let running = self.start_called(open, || request.key())?;
            let granted = ForkSafe::new(async {
                tokio::select! {
                    // A lease that is already granted goes to `hand_out`, which releases it if the client is closed.
                    biased;
                    granted = acquire(&running.acquirer, request, wait, owner) => granted,
                    () = self.closed() => Err(Error::closed(&request.key())),
                }
            });
            let granted = granted.await.ok_or_else(|| forked(request))??;
            self.hand_out(request, &running, granted)
        }
    }

    /// Tries to acquire the lock in one round. Returns `None` if it is held.
    pub(crate) async fn try_acquire(&self, request: &Request) -> Result<Option<Lease>> {
        self.warn_if_long(request);
        let running = self.start(|| request.key())?;
        // A single round ends soon, so this does not wait for a close.
        let granted = ForkSafe::new(try_acquire(&running.acquirer, request)).await;
        let granted = granted.ok_or_else(|| forked(request))??;
        granted.map(|lease| self.hand_out(request, &running, lease)).transpose()
    }

    /// Returns the lease to the caller. Releases it by dropping it if the client was closed in the meantime, or if the
    /// monitor failed and cannot renew it.
    fn hand_out(&self, request: &Request, running: &Running, lease: Lease) -> Result<Lease> {
        if self.is_closed() {
            drop(lease.undone_on_drop());
            return Err(Error::closed(&request.key()));
        }
        if !running.works() {
            drop(lease.undone_on_drop());
            return Err(Error::lost(&request.key(), LossReason::Internal, Duration::ZERO));
        }
        Ok(lease)
    }

    /// Attaches to the lease that is already held under this token.
    pub(crate) async fn attach(&self, request: &Request, claim: &Claim) -> Result<Lease> {
        // No lease has such a token, but the value of a key may equal it.
        if claim.token.is_empty() || claim.token.starts_with(KEPT_PREFIX) {
            let what = if claim.token.is_empty() { "empty" } else { "that of a released lease" };
            let text = format!("the token is {what}. Pass the token of the lease to attach to");
            return Err(request.invalid(&text));
        }
        let running = self.start(|| request.key())?;
        // `attach` itself checks whether the client was closed. It must then abandon the lease without releasing it.
        let attached =
            ForkSafe::new(attach(request, claim, running.leases(), || self.is_closed())).await;
        attached.ok_or_else(|| forked(request))?
    }

    /// Returns the holder of each key, as reported by each node.
    pub(crate) async fn inspect(&self, request: &Request) -> Result<Inspection> {
        let running = self.start(|| request.key())?;
        let nodes = &running.leases().nodes;
        let inspection = inspection(nodes, &request.keys, request.node_timeout()).await;
        inspection.map_err(|nodes| request.unavailable(nodes, None))
    }

    /// Deletes the keys regardless of their owner. Returns true if at least one existed.
    ///
    /// Every reply counts as granted, because a quorum without the key is all that matters.
    pub(crate) async fn force_release(&self, request: &Request) -> Result<bool> {
        let running = self.start(|| request.key())?;
        let (nodes, timeout) = (&running.leases().nodes, request.node_timeout());
        if let Err(votes) = nodes.connect(&request.keys).await {
            return Err(request.unavailable(nodes.report(&votes, nodes.connect_timeout), None));
        }
        let replies = nodes.list.iter().map(|node| node.force_release(&request.keys));
        let mut votes = Collect::new(replies, |_| Votes::Granted);
        votes.until_decided(&*nodes.clock, nodes.clock.now() + timeout).await;
        if !votes.tally.met() {
            return Err(request.unavailable(nodes.report(&votes, timeout), None));
        }
        Ok(votes.answers.iter().flatten().flatten().any(|deleted| *deleted))
    }

    /// Returns the leases that are held now.
    ///
    /// Checking a lease also marks it as lost if its deadline has passed.
    pub(crate) fn leases(&self) -> Vec<LeaseHandle> {
        let states = self.running().map(|running| running.leases().registry.leases());
        let held = states.into_iter().flatten().filter(|state| state.is_held());
        held.map(LeaseHandle).collect()
    }

    /// Closes the client: new commands fail, and every lease is lost.
    pub(crate) fn close(&self) {
        // This must come first, so that a caller that is notified of the loss and acquires again finds a closed client.
        self.enter(Phase::Closed);
        if let Some(running) = self.running.take() {
            running.close();
        }
    }

    /// Enters the phase, unless the client is in a later one. New commands fail in every phase except the first.
    /// Waiting acquires fail in the last one.
    fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if phase == Phase::Closed {
            // Creates the notification if necessary. An acquire that creates it now reads the phase afterwards.
            self.closing.get_or_make(Notify::new).notify_waiters();
        }
    }

    fn is_open(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Open as u8
    }

    /// Whether acquires can no longer return a lease.
    fn is_closed(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Closed as u8
    }

    /// Waits until the client is closed.
    async fn closed(&self) {
        let closing = self.closing.get_or_make(Notify::new);
        let mut closing = std::pin::pin!(closing.notified());
        // Registers before the check, so that a close in between is not missed.
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }

    /// Warns once about a TTL that is long enough to suggest a wrong unit.
    fn warn_if_long(&self, request: &Request) {
        let ttl = request.options.ttl;
        if ttl > LONG_TTL
            && ttl.as_secs() > self.longest.fetch_max(ttl.as_secs(), Ordering::Relaxed)
        {
            log::event!(
                Warn, Acquire, { key: request.key(), ttl: seconds(ttl) }, "the ttl is above one hour. Check its unit"
            );
        }
    }
}

/// The error of a call that a forked child continues. The lease, if any, belongs to the parent.
fn forked(request: &Request) -> Error {
    Error::lost(&request.key(), LossReason::Forked, Duration::ZERO)
}
