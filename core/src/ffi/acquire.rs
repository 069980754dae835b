//! Acquiring and extending, as other languages write their times and as late as their threads come to it.

use std::future::Future;
use std::time::Duration;

use super::args;
use crate::clock::Instant;
use crate::error::Result;
use crate::lease::{Lease, LeaseHandle, Owner};
use crate::lock::Lock;
use crate::options::Unit;

/// One acquire of another language, within one budget of time.
///
/// A lease may have ended before its caller's thread could run: it was blocked, or waited for the interpreter. Such a
/// lease is never handed out: the caller asks [`Acquire::accept`] on that thread, and again where the answer is `None`.
pub struct Acquire {
    lock: Lock,
    /// `None`: one round, and nothing is waited for. The inner one is for ever.
    wait: Option<Option<Duration>>,
    owner: Option<Owner>,
    /// The budget counts from here, through all the leases that came too late.
    started: Instant,
}

impl Acquire {
    /// `wait` overrides the lock's own, infinity is for ever. An owner that waits for itself is told so.
    pub fn new(lock: &Lock, wait: Option<f64>, unit: Unit, owner: Option<Owner>) -> Result<Self> {
        let wait = args::wait(wait, unit)?.unwrap_or_else(|| lock.options().wait);
        Ok(Self { lock: lock.clone(), wait: Some(wait), owner, started: lock.now() })
    }

    /// One round, as [`Lock::try_acquire`].
    pub fn once(lock: &Lock) -> Self {
        Self { lock: lock.clone(), wait: None, owner: None, started: lock.now() }
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
    /// Sent when it is polled. Dropping the future leaves no key behind.
    pub fn ask(&self) -> impl Future<Output = Result<Option<Lease>>> + Send + 'static + use<> {
        let (lock, owner) = (self.lock.clone(), self.owner);
        let passed = self.lock.now().since(self.started);
        let left = self.wait.map(|wait| wait.map(|wait| wait.saturating_sub(passed)));
        async move {
            match left {
                Some(wait) => lock.acquire_within(wait, owner).await.map(Some),
                None => lock.try_acquire().await,
            }
        }
    }

    /// What the caller is told now, on its own thread; `None`: its lease's time was over before, it is to ask again.
    pub fn accept(&self, granted: Result<Option<Lease>>) -> Option<Result<Option<Lease>>> {
        match granted {
            // Dropped here, which deletes what may still be there.
            Ok(Some(lease)) if !lease.held() => None,
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
    Ok(lock.acquire_within(wait, owner))
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
