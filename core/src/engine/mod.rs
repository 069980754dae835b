//! The engine behind a client: its options, the components that run in this process, and the phase of its shutdown.
//!
//! A client and its locks share one engine. Nothing runs before the first use. A forked child starts its own
//! components. The simulation assembles the same components with its own nodes and clock, and runs the monitor itself.
//!
//! Each operation is implemented elsewhere: acquiring in `acquire`, held leases in `lease`. This module adds the end of
//! a client. A client that shuts down rejects new commands, and a closed client returns no lease.

mod inspect;
mod ping;
mod questions;
pub(crate) mod running;
mod stored;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::acquire::{acquire, attach, try_acquire};
use crate::clock::polled;
use crate::error::{Error, ErrorKind, LossReason, Result};
use crate::lease::Lease;
use crate::node::{Claim, KEPT_PREFIX, SHARED_PREFIX};
use crate::options::client::Config;
use crate::options::lock::Request;
use crate::runtime::{Made, PerProcess, background};
use crate::telemetry::{Counts, Owner};
use inspect::{force_release, inspection};
use ping::ping;
use questions::questions;
use running::Running;
use stored::stored;

pub use inspect::{Inspection, NodeInspection};
pub use ping::{NodePing, Ping};
pub use questions::NodeReplies;
pub use stored::{Stored, StoredLock};

/// Awaits a call in place, because passing a large future to a function copies it. If a forked child continues the
/// call, it ends there immediately: its lease, if any, belongs to the parent.
macro_rules! in_own_process {
    ($running:expr, $request:expr, $call:expr) => {
        polled(&*$running.acquirer.nodes.clock, pin!($running.in_same_process($call)))
            .await
            .unwrap_or_else(|| Err(forked($request)))
    };
}

/// Runs a call until the components fail that it uses. Starts them if necessary.
macro_rules! while_running {
    ($engine:expr, $request:expr, |$running:ident| $call:expr) => {{
        let $running = $engine.start($engine.is_open(), $request)?;
        in_own_process!($running, $request, async {
            tokio::select! {
                biased;
                done = $call => done,
                () = $running.failed() => Err(failed($request)),
            }
        })
    }};
}

/// Runs an acquire until it ends, the components fail or the client is closed.
macro_rules! while_open {
    ($engine:expr, $running:expr, $request:expr, $call:expr) => {
        in_own_process!($running, $request, async {
            let mut call = pin!($call);
            tokio::select! {
                biased;
                // Checked before each turn of the acquire, so that no vote follows a shutdown that has returned.
                () = $engine.closed() => Err(Error::closed(&$request.key())),
                // A lease that is already granted goes to `hand_out`, which releases it if the client is closed.
                done = call.as_mut() => done,
                () = $running.ended(|| $engine.is_closed()) => {
                    Err($engine.why_ended($request, &$running).unwrap_or_else(|| failed($request)))
                }
            }
        })
    };
}

pub(crate) struct Engine {
    pub(crate) config: Config,
    /// The components of this process. Created by the first command and removed when the client is closed.
    running: PerProcess<Running>,
    /// A [`Phase`]. The value never decreases.
    phase: AtomicU8,
    counts: PerProcess<Arc<Counts>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Open,
    /// New commands fail. Acquires that began earlier may still return a lease.
    Draining,
    /// No acquire returns a lease.
    Closed,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            running: PerProcess::new(),
            phase: AtomicU8::new(Phase::Open as u8),
            counts: PerProcess::new(),
        }
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn with_running(config: Config, running: Running) -> Self {
        let engine = Self::new(config);
        drop(engine.running.replace(running));
        engine
    }

    /// Returns the components of this process, and starts them if necessary. `open` tells whether the client was open
    /// when the command was called.
    fn start(&self, open: bool, request: &Request) -> Result<Arc<Made<Running>>> {
        if !open || self.is_closed() {
            return Err(Error::closed(&request.key()));
        }
        // If the monitor failed, all components are replaced. The leases it watched are already lost.
        let running = self.running.get_or_try_make(Running::works, || {
            // Before the first command, the descriptors that the program may have closed are not missed by anything.
            background::has_lost_descriptors();
            // Starts the background thread here, because this is where a failure can still be returned as an error.
            background::handle().map_err(|error| Error::no_thread(&request.key(), &error))?;
            Ok(Running::start(&self.config, self.counts()))
        })?;
        // The client may have been closed during the start.
        if self.is_closed() { Err(Error::closed(&request.key())) } else { Ok(running) }
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts.get_or_make(Arc::default))
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
            let request = &request?;
            let running = self.start(open, request)?;
            running.leases().warn_of_mistakes(request);
            let lease = while_open!(
                self,
                running,
                request,
                acquire(&running.acquirer, request, wait, owner)
            )?;
            self.hand_out(request, &running, lease)
        }
    }

    /// Tries to acquire the lock in one round. Returns `None` if it is held.
    pub(crate) async fn try_acquire(&self, request: &Arc<Request>) -> Result<Option<Lease>> {
        let running = self.start(self.is_open(), request)?;
        running.leases().warn_of_mistakes(request);
        let granted = while_open!(self, running, request, try_acquire(&running.acquirer, request))?;
        granted.map(|lease| self.hand_out(request, &running, lease)).transpose()
    }

    /// Returns the lease to the caller. Releases it by dropping it if the client was closed in the meantime, or if the
    /// monitor failed and cannot renew it.
    fn hand_out(&self, request: &Request, running: &Running, lease: Lease) -> Result<Lease> {
        if let Some(error) = self.why_ended(request, running) {
            drop(lease.undone_on_drop());
            return Err(error);
        }
        Ok(lease)
    }

    /// The error for a new lease that nothing would renew.
    fn why_ended(&self, request: &Request, running: &Running) -> Option<Error> {
        if self.is_closed() {
            return Some(Error::closed(&request.key()));
        }
        (!running.works()).then(|| failed(request))
    }

    /// Attaches to the lease that is already held under this token.
    pub(crate) async fn attach(&self, request: &Arc<Request>, claim: &Claim) -> Result<Lease> {
        // No lease has such a token, but the value of a key may equal it.
        let what = match &*claim.token {
            "" => Some("empty"),
            kept if kept.starts_with(KEPT_PREFIX) => Some("that of a released lease"),
            shared if shared.starts_with(SHARED_PREFIX) => Some("that of all readers"),
            _ => None,
        };
        if let Some(what) = what {
            let text = format!("the token is {what}. Pass the token of the lease to attach to");
            return Err(request.invalid(&text));
        }
        while_running!(self, request, |running| async {
            running.leases().warn_of_mistakes(request);
            // `attach` itself checks this. It must then abandon the lease without releasing it.
            let ended = || self.why_ended(request, &running);
            let attached = attach(request, claim, &running.acquirer, ended).await;
            // A holder loses its lease to any other value. Here, data of another type means a wrong name.
            if let Err(lost) = &attached
                && lost.loss_reason() == Some(LossReason::Taken)
                && let Err(error) = inspection(&running.acquirer.nodes, request).await
                && error.kind() == ErrorKind::Unsupported
            {
                return Err(error);
            }
            attached
        })
    }

    /// Returns the holder of each key, as reported by each node.
    pub(crate) async fn inspect(&self, request: &Request) -> Result<Inspection> {
        while_running!(self, request, |running| inspection(&running.acquirer.nodes, request))
    }

    /// Asks whether the nodes would grant the lock, whose key does not exist.
    pub(crate) async fn ping(&self, request: &Request, timeout: Duration) -> Result<Ping> {
        if self.is_closed() {
            return Err(Error::client_closed());
        }
        while_running!(self, request, |running| async {
            Ok(ping(&running.acquirer.nodes, &request.key(), timeout).await)
        })
    }

    /// Deletes the keys regardless of their owner. Returns true if at least one existed.
    pub(crate) async fn force_release(&self, request: &Request) -> Result<bool> {
        while_running!(self, request, |running| force_release(
            &running.acquirer.nodes,
            request,
            &running.leases().watch
        ))
    }

    /// Returns the locks that have keys on the nodes.
    pub(crate) async fn stored(&self, request: &Request) -> Result<Stored> {
        let prefix = &self.config.key_prefix;
        while_running!(self, request, |running| stored(&running.acquirer.nodes, request, prefix))
    }

    /// Sends these commands to every server, for a diagnosis.
    pub(crate) async fn questions(
        &self,
        request: &Request,
        commands: Vec<Vec<String>>,
    ) -> Result<Vec<NodeReplies>> {
        while_running!(self, request, |running| async {
            Ok(questions(&running.acquirer.nodes, commands).await)
        })
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
    /// Waiting acquires end in the last one.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if phase == Phase::Closed {
            self.running.get().iter().for_each(|running| running.notify_calls());
        }
    }

    fn is_open(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Open as u8
    }

    /// Completes when it is polled while the client is closed. It wakes no task.
    fn closed(&self) -> impl Future<Output = ()> {
        poll_fn(|_| if self.is_closed() { Poll::Ready(()) } else { Poll::Pending })
    }

    /// Whether acquires can no longer return a lease.
    fn is_closed(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Closed as u8
    }
}

/// The error of a call whose components have failed.
fn failed(request: &Request) -> Error {
    Error::lost(&request.key(), LossReason::Internal, Duration::ZERO)
}

/// The error of a call that a forked child continues.
fn forked(request: &Request) -> Error {
    Error::lost(&request.key(), LossReason::Forked, Duration::ZERO)
}
