//! Acquiring and extending, as other languages write their times and as late as their threads come to it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, FutureExt};

use super::args;
use crate::acquire::Request;
use crate::clock::Instant;
use crate::engine::Engine;
use crate::error::Result;
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::lock::Lock;
use crate::options::Unit;

/// One acquire of another language, within one budget of time.
///
/// A lease may have ended before its caller's thread could run: it was blocked, or waited for the interpreter. Such a
/// lease is never handed out: the caller asks [`Acquire::accept`] on that thread, and again where the answer is `None`.
pub struct Acquire {
    engine: Arc<Engine>,
    /// Or the rule that it breaks.
    request: Result<Arc<Request>>,
    /// `None`: one round, and nothing is waited for. The inner one is for ever.
    wait: Option<Option<Duration>>,
    owner: Option<Owner>,
    /// When it was first asked: the budget counts from here, through all the leases that came too late.
    started: OnceLock<Instant>,
    /// A grant was read too late, for which it is asked once more.
    late: AtomicBool,
}

impl Acquire {
    /// `wait` overrides the lock's own, infinity is for ever. An owner that waits for itself is told so.
    pub fn new(lock: &Lock, wait: Option<f64>, unit: Unit, owner: Option<Owner>) -> Result<Self> {
        let wait = args::wait(wait, unit)?.unwrap_or_else(|| lock.options().wait);
        Ok(Self::of(lock, Some(wait), owner))
    }

    /// One round, as [`Lock::try_acquire`].
    pub fn once(lock: &Lock) -> Self {
        Self::of(lock, None, None)
    }

    /// Begins to count the wait only when it is first polled: bindings make it earlier.
    fn of(lock: &Lock, wait: Option<Option<Duration>>, owner: Option<Owner>) -> Self {
        let (engine, request) = lock.parts();
        let (started, late) = (OnceLock::new(), AtomicBool::new(false));
        Self { engine, request, wait, owner, started, late }
    }

    /// Whether somebody else may be waited for.
    ///
    /// Bindings warn where that would block an event loop.
    pub fn may_wait(&self) -> bool {
        self.wait.is_some_and(|wait| wait != Some(Duration::ZERO))
    }

    /// The lease, once it is ours; `None` where one round was not enough. Of what is left of the budget each time; when
    /// nothing is, one round.
    ///
    /// Sent when it is polled. Dropping the future leaves no key behind, and neither does dropping the lease before it is
    /// a handle, which the caller's thread makes of it.
    pub fn ask(&self) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        let now = self.engine.config.clock.now();
        let passed = now.since(*self.started.get_or_init(|| now));
        let (engine, request) = (Arc::clone(&self.engine), self.request.clone());
        let owner = self.owner;
        // One of two, not a block over both: that would hold whichever it is twice, and be moved as a whole.
        match self.wait.map(|wait| wait.map(|wait| wait.saturating_sub(passed))) {
            Some(wait) => {
                let granted = engine.acquire(request, wait, owner);
                Either::Left(granted.map(|granted| Ok(Some(granted?.undone_on_drop()))))
            }
            None => Either::Right(async move {
                let granted = engine.try_acquire(&*request?).await?;
                Ok(granted.map(Lease::undone_on_drop))
            }),
        }
    }

    /// What the caller is told now, on its own thread; `None`: its lease's time was over before, it is to ask again.
    pub fn accept(&self, granted: Result<Option<Lease>>) -> Option<Result<Option<Lease>>> {
        match granted {
            // Dropped here, which deletes what may still be there.
            Ok(Some(lease)) if !lease.is_held() => None,
            // The nodes may have answered in time: an event loop that somebody blocks reads later. Once, as it may also be
            // their way that takes so long; of what is left of the budget, which is one round at least.
            Err(error) if error.was_late() && !self.late.swap(true, Ordering::Relaxed) => None,
            granted => Some(granted),
        }
    }
}

/// One acquire whose lease is handed out whenever it comes: [`Acquire`] without its second thoughts.
pub fn acquire(
    lock: &Lock,
    wait: Option<f64>,
    unit: Unit,
    owner: Option<Owner>,
) -> Result<impl Future<Output = Result<Lease>> + Send + 'static + use<>> {
    let wait = args::wait(wait, unit)?.unwrap_or_else(|| lock.options().wait);
    Ok(lock.acquire_as(wait, owner))
}

/// [`LeaseHandle::extend`] for other languages: `None` is the lease's own ttl. A ttl that breaks a rule is told at
/// once.
pub fn extend(
    lease: &LeaseHandle,
    ttl: Option<f64>,
    unit: Unit,
) -> Result<impl Future<Output = Result<()>> + Send + 'static + use<>> {
    let ttl = ttl.map(|ttl| unit.duration("ttl", ttl)).transpose()?;
    let ttl = ttl.unwrap_or_else(|| lease.ttl());
    lease.check_ttl(ttl, unit)?;
    Ok(lease.extend(ttl))
}

/// What a lock asks for, if it is not extended: its leases begin with it.
pub fn own_ttl(lock: &Lock) -> Duration {
    lock.options().ttl
}

/// The lease's fencing token; `None`: it has none, which costs no error's text.
pub fn fence(lease: &LeaseHandle) -> Option<u64> {
    lease.0.params.fence
}
