//! What you hold: a token, a validity, and the word when it is lost.
//!
//! A lease knows its nodes only as a quorum to be asked. Its data is in [`phase`], what can be done to it in
//! [`state`], what is asked of the nodes for it in [`extend`] and [`release`]. [`mod@monitor`] watches over all
//! leases of a client by way of the [`registry`], and [`handle`] is the one part that callers see.

mod checks;
mod extend;
mod handle;
mod monitor;
mod params;
mod phase;
mod registry;
mod release;
mod renewal;
mod state;
mod validity;

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::Result;

pub(crate) use extend::{ExtendRound, Verdict};
pub use handle::LeaseHandle;
pub(crate) use monitor::monitor;
pub(crate) use params::LeaseParams;
pub use params::Owner;
pub(crate) use registry::Registry;
pub(crate) use release::{confirmed, take_back};
pub(crate) use state::{Leases, State};
pub(crate) use validity::Validity;

/// What you hold: dropping it releases it, best-effort and without waiting.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// drop(client.lock("job").acquire().await?);
/// assert!(client.lock("job").try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[must_use = "a lease that is dropped is released"]
#[derive(Debug)]
pub struct Lease {
    handle: LeaseHandle,
    /// Dropping it gives the lease back; not after `into_handle`.
    releases: bool,
}

impl Lease {
    /// A lease that was just granted.
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { handle: LeaseHandle(state), releases: true }
    }

    /// Gives the lease back and waits for a quorum to confirm it; see [`LeaseHandle::release`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Sent at the call: dropping the future gives up the confirmation alone.
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        self.into_handle().release()
    }

    /// The lease without its release on drop.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let handle = client.lock("job").acquire().await?.into_handle();
    /// assert!(handle.held());
    /// handle.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// For leases that outlive a scope, or are ended by other means. Garbage collectors drop whenever they
    /// like: the bindings keep handles only.
    pub fn into_handle(mut self) -> LeaseHandle {
        self.releases = false;
        self.handle.clone()
    }
}

impl Deref for Lease {
    type Target = LeaseHandle;
    fn deref(&self) -> &LeaseHandle {
        &self.handle
    }
}

/// Sent, and not waited for. Where it cannot be sent, the node's next connection owes it; else the key lives
/// out its ttl.
impl Drop for Lease {
    fn drop(&mut self) {
        if self.releases {
            drop(self.handle.release());
        }
    }
}
