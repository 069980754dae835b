//! A held lock: its token, its validity, and the notification of its loss.
//!
//! The nodes of a lease are known only as a quorum. [`state`] holds the data and its changes, and [`extend`] and
//! [`end`] the commands to the nodes. [`mod@monitor`] watches all leases of a client through the [`registry`].
//! Callers only see [`handle`].

mod end;
mod extend;
mod handle;
mod leases;
mod monitor;
mod registry;
mod renewal;
mod state;
mod status;
mod term;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use crate::clock::Instant;
use crate::drivers;
use crate::error::Result;

pub(crate) use end::{Deletes, confirmed, revoke, undo};
pub(crate) use extend::{ExtendRound, Verdict};
pub use handle::LeaseHandle;
pub(crate) use leases::Leases;
pub(crate) use monitor::monitor;
pub(crate) use registry::Registry;
pub(crate) use state::{LeaseState, Origin};
pub(crate) use status::Status;

/// A held lock.
///
/// Dropping it releases the lock in the background, best-effort.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// drop(client.lock("job").acquire().await?);
/// assert!(client.lock("job").try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[must_use = "a lease that is dropped is released"]
pub struct Lease {
    handle: LeaseHandle,
    drops: Drops,
}

// A panic under any lock of the library leaves the guarded data consistent, so poisoned locks are ignored.
impl UnwindSafe for Lease {}
impl RefUnwindSafe for Lease {}
impl UnwindSafe for LeaseHandle {}
impl RefUnwindSafe for LeaseHandle {}

enum Drops {
    Nothing,
    Release,
    /// Undoes a grant that the caller never received.
    Undo,
}

impl Lease {
    pub(crate) fn new(state: Arc<LeaseState>) -> Self {
        Self { handle: LeaseHandle(state), drops: Drops::Release }
    }

    /// When the round that granted the lease began.
    pub(crate) fn acquired(&self) -> Instant {
        self.handle.0.acquired
    }

    pub(crate) fn state(&self) -> &LeaseState {
        &self.handle.0
    }

    /// Ignores `min_hold` on drop, until a handle is made of the lease: a caller that never received the lease did no
    /// work.
    pub(crate) fn undone_on_drop(mut self) -> Self {
        self.drops = Drops::Undo;
        self
    }

    /// Releases the lease and waits for a quorum to confirm it. See [`LeaseHandle::release`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The command is sent when this method is called. Dropping the future only gives up the confirmation.
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        self.into_handle().release()
    }

    /// Turns the lease into a handle, which does not release it on drop.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let handle = client.lock("job").acquire().await?.into_handle();
    /// assert!(handle.is_held());
    /// handle.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Use this for leases that outlive a scope or that are released explicitly. The bindings keep only handles,
    /// because garbage collectors drop objects at any time.
    #[must_use = "without its handle the lease is never released"]
    pub fn into_handle(mut self) -> LeaseHandle {
        self.drops = Drops::Nothing;
        self.handle.clone()
    }

    /// Returns a handle on this lease, which can be cloned and kept.
    ///
    /// It remains usable after the lease is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// let handle = lease.handle();
    /// drop(lease);
    /// assert!(handle.is_released());
    /// # Ok(()) }
    /// ```
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }
}

/// A lease has all methods of its handle.
impl Deref for Lease {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.handle
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// Sends the release without waiting for a reply. If it cannot be sent, the node's next connection sends it. Otherwise
/// the key expires when its TTL ends.
impl Drop for Lease {
    fn drop(&mut self) {
        match self.drops {
            Drops::Nothing => {}
            Drops::Release => drop(self.handle.release()),
            Drops::Undo => {
                drop(undo(&self.handle.0));
                drivers::flush();
            }
        }
    }
}

#[cfg(test)]
mod tests;
