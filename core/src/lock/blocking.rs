//! Blocking variants of the calls, for programs without a runtime.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::drivers;
use crate::error::Result;
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Lock;

/// The longest single wait. Longer waits are repeated.
const LONG: Duration = Duration::from_secs(3600);

/// Runs a call's future to completion on this thread.
fn outcome<F: Future>(call: impl FnOnce() -> F) -> F::Output {
    // Begun before the call, because some calls send their command immediately.
    let _waits = drivers::about_to_wait();
    let mut future = pin!(call());
    loop {
        if let Poll::Ready(outcome) = drivers::wait(future.as_mut(), LONG) {
            return outcome;
        }
    }
}

impl Lock {
    /// [`Lock::acquire`] for programs without a runtime. Blocks this thread for up to `wait`.
    ///
    /// Do not call it in an async function, because it would block the runtime's thread. Await [`Lock::acquire`] there.
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

    /// [`Lock::try_acquire`] for programs without a runtime. Returns `None` if another owner holds the lock.
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
    /// [`Lease::release`] for programs without a runtime. Blocks until a quorum confirms the release.
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
    /// [`LeaseHandle::release`] for programs without a runtime. Blocks until a quorum confirms the release.
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

    /// [`LeaseHandle::extend`] for programs without a runtime. Blocks until a quorum confirms the extension.
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
