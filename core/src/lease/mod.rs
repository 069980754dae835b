//! What you hold: a token, a validity, and the word when it is lost.

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

impl Drop for Lease {
    fn drop(&mut self) {
        if self.releases {
            drop(self.handle.release());
        }
    }
}
