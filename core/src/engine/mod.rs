//! What is behind a client: its options, what runs in this process, and whether it was closed.
//!
//! Clients and locks share one. Nothing runs before the first use; a forked child starts its own.
//!
//! It knows every verb of the library and none of how they are done: acquiring is `acquire`'s, what is held
//! `lease`'s. What it adds is the client's end: a client that shuts down accepts no new command, and a closed one returns
//! no lease.

mod running;
mod shutdown;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::acquire::{Request, acquire, attach, try_acquire};
use crate::background;
use crate::config::Config;
use crate::error::{Error, LossReason, Result, seconds};
use crate::inspect::{Inspection, inspection};
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::log;
use crate::node::{Claim, KEPT};
use crate::options::LONG_TTL;
use crate::per_process::{Made, PerProcess};
use crate::quorum::{Collect, Counts as Votes};
use crate::stats::{Counts, Stats};

pub(crate) use running::Running;

/// A client's engine.
pub(crate) struct Engine {
    /// The client's options, checked.
    pub(crate) config: Config,
    /// What runs here, once something was asked; taken out when the client is closed.
    running: PerProcess<Running>,
    /// A [`Phase`]. It only grows.
    phase: AtomicU8,
    /// Notified at [`Phase::Closed`]: waiting acquires end. A forked child makes its own: a thread of the parent may have been
    /// in it, and would never leave it here.
    closing: PerProcess<Notify>,
    /// What was done so far in this process.
    counts: PerProcess<Arc<Counts>>,
    /// The longest ttl asked for so far, in seconds.
    ///
    /// Only a longer one is warned of again.
    longest: AtomicU64,
}

/// How far the end of a client has come.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// The client accepts commands.
    Open,
    /// New commands fail. Acquires that began before still may return a lease.
    Draining,
    /// No acquire returns a lease.
    Closed,
}

impl Engine {
    /// Nothing runs yet.
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

    /// An engine over nodes that are there already.
    #[cfg(test)]
    pub(crate) fn over(config: Config, running: Running) -> Self {
        let engine = Self::new(config);
        drop(engine.running.replace(running));
        engine
    }

    /// What runs in this process, started if nothing does; `key` is for the error.
    fn start(&self, key: impl Fn() -> String) -> Result<Arc<Made<Running>>> {
        self.start_called(self.is_open(), key)
    }

    /// [`Engine::start`] for a command that was called while the client was `open`, or was not.
    fn start_called(&self, open: bool, key: impl Fn() -> String) -> Result<Arc<Made<Running>>> {
        if !open || self.is_closed() {
            return Err(Error::closed(&key()));
        }
        // A monitor that failed is replaced with all that it watched over: its leases are lost already.
        let running = self.running.get_or_try_make(Running::works, || {
            // Asked for here, where there is an error to tell: later on a thread that cannot be had would only
            // be silence.
            background::handle().map_err(|error| Error::no_thread(&key(), &error))?;
            Ok(Running::start(&self.config, self.counts()))
        })?;
        // It may have been closed while it was started.
        if self.is_closed() { Err(Error::closed(&key())) } else { Ok(running) }
    }

    fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts.get_or_make(Arc::default))
    }

    /// What was done so far in this process.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counts().read();
        if let Some(running) = self.running() {
            running.add_to(&mut stats);
        }
        stats
    }

    /// What runs behind the client in this process, if something was asked already.
    pub(crate) fn running(&self) -> Option<Arc<Made<Running>>> {
        self.running.get()
    }

    /// The lease, once it is ours, within `wait`.
    ///
    /// Dropped at any await it leaves no key behind.
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
        // Read at the call: an event loop may poll this for the first time after a shutdown that was called later.
        let open = self.is_open();
        async move {
            let request = &*request?;
            self.warn_if_long(request);
            let running = self.start_called(open, || request.key())?;
            let granted = tokio::select! {
                // A grant that is there goes through `hand_out`, which gives it back by itself if the client is
                // closed.
                biased;
                granted = acquire(&running.acquirer, request, wait, owner) => granted?,
                () = self.closed() => return Err(Error::closed(&request.key())),
            };
            self.hand_out(request, &running, granted)
        }
    }

    /// The lease, or `None` if somebody else was first: one round.
    pub(crate) async fn try_acquire(&self, request: &Request) -> Result<Option<Lease>> {
        self.warn_if_long(request);
        let running = self.start(|| request.key())?;
        // One round ends by itself: no close is waited for.
        let granted = try_acquire(&running.acquirer, request).await?;
        granted.map(|lease| self.hand_out(request, &running, lease)).transpose()
    }

    /// A lease of a client that was closed meanwhile, or that nothing would renew, is given back.
    /// Dropping it is what gives it back.
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

    /// The lease that is held under this token already.
    pub(crate) async fn attach(&self, request: &Request, claim: &Claim) -> Result<Lease> {
        // No lease has such a token, but a key may have it for its value.
        if claim.token.is_empty() || claim.token.starts_with(KEPT) {
            let what =
                if claim.token.is_empty() { "empty" } else { "of a lease that was released" };
            let text = format!("the token is {what}: give that of the lease to go on with");
            return Err(request.invalid(&text));
        }
        let running = self.start(|| request.key())?;
        // It looks for itself whether the client was closed: such a lease must be let go of, not released.
        attach(request, claim, running.leases(), || self.is_closed()).await
    }

    /// Who has the keys, by each node's word.
    pub(crate) async fn inspect(&self, request: &Request) -> Result<Inspection> {
        let running = self.start(|| request.key())?;
        let nodes = &running.leases().nodes;
        let inspection = inspection(nodes, &request.keys, request.node_timeout()).await;
        inspection.map_err(|nodes| request.unavailable(nodes, None))
    }

    /// Deletes the keys whoever has them; true if there was one.
    ///
    /// An answer is a yes whether or not there was a key: what counts is that a quorum has none now.
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

    /// The leases held now.
    ///
    /// Asking each marks those whose time is over as lost.
    pub(crate) fn leases(&self) -> Vec<LeaseHandle> {
        let states = self.running().map(|running| running.leases().registry.leases());
        let held = states.into_iter().flatten().filter(|state| state.is_held());
        held.map(LeaseHandle).collect()
    }

    /// Nothing new from now on, and every lease is lost.
    pub(crate) fn close(&self) {
        // First: a caller that is notified of the loss and acquires again finds a closed client.
        self.enter(Phase::Closed);
        if let Some(running) = self.running.take() {
            running.close();
        }
    }

    /// Enters the phase, unless the client is in a later one. In each but the first, new commands fail with `Closed`; in
    /// the last one, also acquires that wait.
    fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if phase == Phase::Closed {
            // Made where there is none: an acquire that creates one now reads the phase after it.
            self.closing.get_or_make(Notify::new).notify_waiters();
        }
    }

    /// Whether the client accepts new commands.
    fn is_open(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Open as u8
    }

    /// Whether acquires return no lease any more.
    fn is_closed(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Closed as u8
    }

    /// Ends when the client is closed.
    async fn closed(&self) {
        let closing = self.closing.get_or_make(Notify::new);
        let mut closing = std::pin::pin!(closing.notified());
        // Registered before the look: a close in between would ring for nobody.
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }

    /// A ttl that is unusual enough to be a wrong unit is warned of once, not at every acquire.
    fn warn_if_long(&self, request: &Request) {
        let ttl = request.options.ttl;
        if ttl > LONG_TTL
            && ttl.as_secs() > self.longest.fetch_max(ttl.as_secs(), Ordering::Relaxed)
        {
            log::event!(
                Warn, Acquire, { key: request.key(), ttl: seconds(ttl) }, "a ttl above one hour: is the unit right?"
            );
        }
    }
}
