//! A held lock: its token, its validity, and the notification of its loss.
//!
//! The nodes of a lease are known only as a quorum. [`phase`] holds the data, [`state`] the state changes, and
//! [`extend`] and [`release`] the commands to the nodes. [`mod@monitor`] watches all leases of a client through the
//! [`registry`]. Callers only see [`handle`].

mod again;
mod checks;
mod extend;
mod handle;
mod monitor;
mod params;
mod phase;
mod registry;
mod release;
mod renewal;
mod report;
mod said;
mod state;
mod validity;

use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, LossReason, Result};
use crate::foreground;

pub(crate) use again::Again;
pub(crate) use extend::{ExtendRound, Verdict};
pub use handle::LeaseHandle;
pub(crate) use monitor::monitor;
pub(crate) use params::LeaseParams;
pub use params::{CallSite, Owner};
pub(crate) use registry::Registry;
pub(crate) use release::{confirmed, take_back};
pub(crate) use said::Said;
pub(crate) use state::{Leases, State};
pub(crate) use validity::Validity;

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
#[derive(Debug)]
pub struct Lease {
    handle: LeaseHandle,
    /// What dropping the lease does.
    drops: Drops,
}

// A panic under any lock of the library leaves the guarded data consistent, so poisoned locks are ignored.
impl UnwindSafe for Lease {}
impl RefUnwindSafe for Lease {}
impl UnwindSafe for LeaseHandle {}
impl RefUnwindSafe for LeaseHandle {}

/// What dropping a lease does.
#[derive(Debug)]
enum Drops {
    /// Does nothing. Its handles stay valid.
    Nothing,
    /// Releases the lease.
    Release,
    /// Undoes a grant that the caller never received.
    Undo,
}

impl Lease {
    /// A lease that was just granted.
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { handle: LeaseHandle(state), drops: Drops::Release }
    }

    /// When the round that granted the lease began.
    pub(crate) fn acquired(&self) -> Instant {
        self.handle.0.params.acquired
    }

    /// The shared state.
    pub(crate) fn state(&self) -> &State {
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

/// Methods of a lease that forward to its handle.
macro_rules! as_its_handle {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $value:ident: $kind:ty)?) -> $answer:ty;)*) => {
        impl Lease {$(
            $(#[$doc])*
            pub fn $name(&self $(, $value: $kind)?) -> $answer {
                self.handle.$name($($value)?)
            }
        )*}
    };
}

as_its_handle! {
    /// Whether the lease is certainly held at this moment. See [`LeaseHandle::is_held`].
    fn is_held(&self) -> bool;
    /// Time until the lease ends, or zero if it has ended. See [`LeaseHandle::remaining`].
    fn remaining(&self) -> Duration;
    /// Returns `Ok` while the lease is held, and otherwise an error with the reason. See [`LeaseHandle::ensure_held`].
    fn ensure_held(&self) -> Result<()>;
    /// The Redis key. Several keys are separated by commas. See [`LeaseHandle::key`].
    fn key(&self) -> String;
    /// The Redis keys. See [`LeaseHandle::keys`].
    fn keys(&self) -> &[String];
    /// The owner's token, which is the value of the key. See [`LeaseHandle::token`].
    fn token(&self) -> &str;
    /// The TTL that each renewal requests. See [`LeaseHandle::ttl`].
    fn ttl(&self) -> Duration;
    /// The fencing token, larger than that of every earlier lease of the same lock. See [`LeaseHandle::fencing_token`].
    fn fencing_token(&self) -> Result<u64>;
    /// Whether the owner released the lease through a handle. See [`LeaseHandle::is_released`].
    fn is_released(&self) -> bool;
    /// Why the lease was lost, or `None` if it was not lost. See [`LeaseHandle::lost_reason`].
    fn lost_reason(&self) -> Option<LossReason>;
    /// Waits until the lease is lost, and returns the reason. See [`LeaseHandle::lost`].
    fn lost(&self) -> impl Future<Output = Error> + Send + 'static + use<>;
    /// Waits until the lease ends. See [`LeaseHandle::ended`].
    fn ended(&self) -> impl Future<Output = Option<Error>> + Send + 'static + use<>;
    /// Extends the lease to at least `ttl` from now. See [`LeaseHandle::extend`].
    fn extend(&self, ttl: Duration) -> impl Future<Output = Result<()>> + Send + 'static + use<>;
    /// Ends the lease in this process without deleting its keys. See [`LeaseHandle::detach`].
    fn detach(&self) -> bool;
    /// [`LeaseHandle::extend`] for programs without a runtime. See [`LeaseHandle::extend_blocking`].
    fn extend_blocking(&self, ttl: Duration) -> Result<()>;
}

/// Sends the release without waiting for a reply. If it cannot be sent, the node's next connection sends it. Otherwise
/// the key expires when its TTL ends.
impl Drop for Lease {
    fn drop(&mut self) {
        match self.drops {
            Drops::Nothing => {}
            Drops::Release => drop(self.handle.release()),
            Drops::Undo => {
                drop(release::undo(&self.handle.0));
                foreground::flush();
            }
        }
    }
}
