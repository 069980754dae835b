//! Acquiring and extending for the bindings, whose times are plain numbers and whose threads may be late.
//!
//! The owner and the call site of a lease only appear in messages. They do not affect which client holds a lock.

use std::any::Any;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, FutureExt};

use crate::clock::Instant;
use crate::drivers;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lease::{Lease, LeaseHandle, Status, undo as undo_lease};
use crate::lock::Lock;
use crate::node::Form;
use crate::options::lock::{Request, Unit};
use crate::primitive::{Kind, Side};
use crate::telemetry::{CallSite, Owner};

/// One acquire of a binding, within one time budget.
///
/// The caller's thread may be late, because it was blocked or waited for the interpreter. If the lease has ended by
/// then, it is never handed out. The caller therefore passes each result to [`Acquire::accept`] on that thread, and
/// calls [`Acquire::acquire`] again if it returns `None`.
pub struct Acquire {
    engine: Arc<Engine>,
    /// The request, or the rule that the lock breaks.
    request: Result<Arc<Request>>,
    /// The time budget. `None` tries once without waiting, and `Some(None)` waits forever.
    wait: Option<Option<Duration>>,
    owner: Option<Owner>,
    /// When the first attempt began. All attempts share the budget that begins here.
    started: OnceLock<Instant>,
    /// Whether the acquire was retried because a grant was read too late.
    late: AtomicBool,
}

impl Acquire {
    /// An acquire with a time budget. `wait` overrides the lock's option, and infinity waits forever.
    ///
    /// The error names the `owner` if it waits for itself.
    ///
    /// # Errors
    ///
    /// `Invalid` if `wait` breaks a rule.
    pub fn new(lock: &Lock, wait: Option<f64>, unit: Unit, owner: Option<Owner>) -> Result<Self> {
        let (wait, parts) = match wait {
            None => (lock.options().wait(), lock.parts()),
            Some(f64::INFINITY) => (None, lock.parts_with(None)),
            Some(wait) => (Some(unit.duration("wait", wait)?), lock.parts()),
        };
        Ok(Self::from_parts(parts, Some(wait), owner))
    }

    /// An acquire that tries once, as [`Lock::try_acquire`] does.
    pub fn once(lock: &Lock) -> Self {
        Self::from_parts(lock.parts(), None, None)
    }

    /// The budget begins at the first attempt and not here, because bindings make the acquire earlier.
    fn from_parts(
        parts: (Arc<Engine>, Result<Arc<Request>>),
        wait: Option<Option<Duration>>,
        owner: Option<Owner>,
    ) -> Self {
        let (engine, request) = parts;
        let (started, late) = (OnceLock::new(), AtomicBool::new(false));
        Self { engine, request, wait, owner, started, late }
    }

    /// Whether the acquire may wait for another owner.
    ///
    /// Bindings warn if that would block an event loop.
    pub fn may_wait(&self) -> bool {
        self.wait.is_some_and(|wait| wait != Some(Duration::ZERO))
    }

    /// Acquires the lock within the rest of the budget. Once the budget is used up, it tries once.
    ///
    /// Returns `None` if a run is remembered, or if an acquire that tries once found the lock held. The commands are
    /// sent when the future is polled. Dropping the future leaves no key behind. The same holds for dropping the lease
    /// before the caller's thread makes a handle of it.
    pub fn acquire(&self) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        let now = self.engine.config.clock.now();
        let passed = now.since(*self.started.get_or_init(|| now));
        let (engine, request) = (Arc::clone(&self.engine), self.request.clone());
        let owner = self.owner;
        // `Either` and not one async block: the block would hold both futures and be moved as a whole.
        match self.wait.map(|wait| wait.map(|wait| wait.saturating_sub(passed))) {
            Some(wait) => {
                let granted = engine.acquire(request, wait, owner);
                Either::Left(granted.map(|granted| match granted {
                    Err(error) if error.is_remembered() => Ok(None),
                    granted => Ok(Some(granted?.undone_on_drop())),
                }))
            }
            None => Either::Right(async move {
                let granted = engine.try_acquire(&request?).await?;
                Ok(granted.map(Lease::undone_on_drop))
            }),
        }
    }

    /// Checks a result on the caller's thread. Returns `None` if the caller must try again.
    pub fn accept(&self, granted: Result<Option<Lease>>) -> Option<Result<Option<Lease>>> {
        match granted {
            Ok(Some(lease)) => match lease.state().status() {
                Some(Status::Held) => Some(Ok(Some(lease))),
                // The lease has ended. Dropping it deletes any remaining key.
                Some(_) => None,
                // A signal handler forked before the result was read. The lease belongs to the parent.
                None => Some(Err(lease.state().why_over())),
            },
            // The nodes may have replied in time, while a blocked event loop read the replies too late. Retried only
            // once, because the network may be the slow part. The retry gets the rest of the budget, but at least one
            // round.
            Err(error) if error.was_late() && !self.late.swap(true, Ordering::Relaxed) => None,
            granted => Some(granted),
        }
    }
}

/// [`LeaseHandle::extend`] for the bindings. A `ttl` of `None` is the lease's current TTL.
///
/// # Errors
///
/// `Invalid` immediately if `ttl` breaks a rule. The future fails as [`LeaseHandle::extend`] does.
pub fn extend(
    lease: &LeaseHandle,
    ttl: Option<f64>,
    unit: Unit,
) -> Result<impl Future<Output = Result<()>> + Send + 'static + use<>> {
    let Some(ttl) = ttl else { return Ok(lease.extend(lease.ttl())) };
    let ttl = unit.duration("ttl", ttl)?;
    lease.check_ttl(ttl, unit)?;
    Ok(lease.extend(ttl))
}

/// [`LeaseHandle::release`] at the end of a body. `completed` tells whether it ended with success: only then is a run
/// that happens once remembered.
pub fn release(
    lease: &LeaseHandle,
    completed: bool,
) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
    lease.release_after(completed)
}

/// Whether a lease of this lock of a leader is held, which another lock of the client did not acquire.
pub fn is_leading(lock: &Lock) -> bool {
    lock.is_held()
}

/// The label of the current leader, which is empty if it has none, or `None` without a leader.
pub fn current_leader(
    lock: &Lock,
) -> impl Future<Output = Result<Option<String>>> + Send + 'static + use<> {
    lock.leader()
}

/// The `ttl` option of a lock, with which its leases begin.
pub fn own_ttl(lock: &Lock) -> Duration {
    lock.options().ttl
}

/// What to do, from the text of an error whose acquire gave up.
///
/// For bindings that write the nodes' part of the text differently.
pub fn advice(error: &Error) -> Option<&str> {
    error.advice()
}

/// The fencing token of the lease. Unlike [`LeaseHandle::fencing_token`] it makes no error if there is none.
pub fn fence(lease: &LeaseHandle) -> Option<u64> {
    lease.0.fence
}

/// Records where the lease was acquired, in the notation of the language. Later calls change nothing.
pub fn note_call_site(lease: &LeaseHandle, call_site: impl CallSite) {
    // An earlier call recorded the same call site.
    let _ = lease.0.call_site.set(Arc::new(call_site));
}

/// The recorded call site, if it has this type.
pub fn call_site<T: CallSite>(lease: &LeaseHandle) -> Option<&T> {
    let noted: &dyn Any = &**lease.0.call_site.get()?;
    noted.downcast_ref()
}

/// Records the owner of the lease. If the same owner then waits for the lease, the error reports it. Later calls change
/// nothing.
pub fn note_owner(lease: &LeaseHandle, owner: Owner) {
    let _ = lease.0.owner.set(owner);
}

/// A lease with this recorded owner for which an acquire of the lock by that owner would wait.
///
/// `has` tells whether the owner still has a lease. A semaphore has room for several leases.
///
/// # Errors
///
/// The first one of `has`.
pub fn held_by<E>(
    lock: &Lock,
    owner: Owner,
    has: impl Fn(&LeaseHandle) -> Result<bool, E>,
) -> Result<Option<LeaseHandle>, E> {
    let mut held = lock.held();
    held.retain(|lease| lease.0.owner.get() == Some(&owner));
    if lock.waits_for(&held) {
        let known = held.iter().map(&has).collect::<Result<Vec<_>, E>>()?;
        let mut known = known.into_iter();
        held.retain(|_| known.next() == Some(true));
    }
    let waits = lock.waits_for(&held);
    Ok(held.pop().filter(|_| waits))
}

/// What an owner has of this lock that waits for itself, for messages.
pub fn own_part(lock: &Lock) -> &'static str {
    lock.request().map_or("", |request| request.primitive.own_part())
}

/// Whether this lease and a lease of the lock may exist at the same time, because both are those of readers.
pub fn shared_by(lock: &Lock, lease: &LeaseHandle) -> bool {
    let reads = lock.options().kind == Kind::ReadWrite(Side::Read);
    reads && matches!(lease.0.claim.form, Form::Read(_))
}

/// `, acquired at CALL SITE` for messages, or an empty string if no call site was recorded.
pub fn acquired_at(lease: &LeaseHandle) -> String {
    lease.0.acquired_at()
}

/// Ends a lease that its caller did not receive, and deletes its keys immediately, because no work was done under them.
pub fn undo(lease: &LeaseHandle) {
    drop(undo_lease(&lease.0));
    drivers::flush();
}

/// Identifies the lease among those that this process holds now. Handles on one lease return the same value.
///
/// It is an address, so another lease may have it after the last handle is dropped.
pub fn identity(lease: &LeaseHandle) -> usize {
    Arc::as_ptr(&lease.0).addr()
}
