//! For programs without a runtime: the same calls, which block the thread.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::error::Result;
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Lock;
use crate::park;

/// How long one wait may take; what takes longer is waited for again.
const LONG: Duration = Duration::from_secs(3600);

/// The outcome of a call's future, on this thread.
fn outcome<F: Future>(call: impl FnOnce() -> F) -> F::Output {
    // Before the call: some ask at once.
    let _waits = park::about_to_wait();
    let mut future = pin!(call());
    loop {
        if let Poll::Ready(outcome) = park::wait(future.as_mut(), LONG) {
            return outcome;
        }
    }
}

impl Lock {
    /// The lease, once it is ours: [`Lock::acquire`] for programs without a runtime. It blocks this thread for as long
    /// as `wait` says.
    ///
    /// In an async function it would keep the runtime's thread from everything else: await [`Lock::acquire`] there.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("nightly").acquire_blocking()?;
    /// lease.release_blocking()
    /// # }
    /// ```
    pub fn acquire_blocking(&self) -> Result<Lease> {
        outcome(|| self.acquire())
    }

    /// The lease, or `None` if somebody else holds it: [`Lock::try_acquire`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("nightly").try_acquire_blocking()?;
    /// assert!(lease.is_some() && client.lock("nightly").try_acquire_blocking()?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn try_acquire_blocking(&self) -> Result<Option<Lease>> {
        outcome(|| self.try_acquire())
    }
}

impl Lease {
    /// Gives the lease back and waits for a quorum to confirm it: [`Lease::release`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("nightly").acquire_blocking()?;
    /// lease.release_blocking()?;
    /// assert!(client.lock("nightly").try_acquire_blocking()?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn release_blocking(self) -> Result<()> {
        self.into_handle().release_blocking()
    }
}

impl LeaseHandle {
    /// [`LeaseHandle::release`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let handle = client.lock("nightly").acquire_blocking()?.into_handle();
    /// handle.release_blocking()
    /// # }
    /// ```
    pub fn release_blocking(&self) -> Result<()> {
        outcome(|| self.release())
    }

    /// [`LeaseHandle::extend`] for programs without a runtime.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("nightly").acquire_blocking()?;
    /// lease.extend_blocking(std::time::Duration::from_secs(30))?;
    /// assert_eq!(lease.ttl().as_secs(), 30);
    /// # Ok(()) }
    /// ```
    pub fn extend_blocking(&self, ttl: Duration) -> Result<()> {
        outcome(|| self.extend(ttl))
    }
}
