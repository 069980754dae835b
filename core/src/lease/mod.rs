//! What you hold: a token, a validity, and the word when it is lost.
//!
//! A lease knows its nodes only as a quorum to be asked. Its data is in [`phase`], what can be done to it in
//! [`state`], what is asked of the nodes for it in [`extend`] and [`release`]. [`mod@monitor`] watches over all
//! leases of a client by way of the [`registry`], and [`handle`] is the one part that callers see.

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
mod said;
mod state;
mod telling;
mod validity;

use std::future::Future;
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
    /// What dropping it does.
    drops: Drops,
}

/// What dropping a lease does.
#[derive(Debug)]
enum Drops {
    /// Its handles go on.
    Nothing,
    /// It gives the lease back.
    Release,
    /// It takes back what nobody has had.
    Undo,
}

impl Lease {
    /// A lease that was just granted.
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { handle: LeaseHandle(state), drops: Drops::Release }
    }

    /// When the round began that a quorum granted.
    pub(crate) fn acquired(&self) -> Instant {
        self.handle.0.params.acquired
    }

    /// For whoever has something to say of it.
    pub(crate) fn state(&self) -> &State {
        &self.handle.0
    }

    /// A lease that is nobody's until it is a handle: `min_hold` is not for those who never came to work.
    pub(crate) fn undone_on_drop(mut self) -> Self {
        self.drops = Drops::Undo;
        self
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
    /// assert!(handle.is_held());
    /// handle.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// For leases that outlive a scope, or are ended by other means. Garbage collectors drop whenever they
    /// like: the bindings keep handles only.
    #[must_use = "without its handle nobody releases the lease any more"]
    pub fn into_handle(mut self) -> LeaseHandle {
        self.drops = Drops::Nothing;
        self.handle.clone()
    }

    /// A handle on this lease, which can be cloned and kept: what it says of the lease goes on, what it does, too.
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

/// What a lease answers as its handle does.
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
    /// Whether the lease is ours for sure at this moment: [`LeaseHandle::is_held`].
    fn is_held(&self) -> bool;
    /// What is left of the lease for sure: [`LeaseHandle::remaining`].
    fn remaining(&self) -> Duration;
    /// `Ok` while the lease is held, else why it is not: [`LeaseHandle::ensure_held`].
    fn ensure_held(&self) -> Result<()>;
    /// The Redis key; of several, all, separated by commas: [`LeaseHandle::key`].
    fn key(&self) -> String;
    /// The Redis keys: [`LeaseHandle::keys`].
    fn keys(&self) -> &[String];
    /// The owner's token, the value of the key: [`LeaseHandle::token`].
    fn token(&self) -> &str;
    /// How long each renewal makes the lease last: [`LeaseHandle::ttl`].
    fn ttl(&self) -> Duration;
    /// Larger than that of every earlier lease of the same lock: [`LeaseHandle::fencing_token`].
    fn fencing_token(&self) -> Result<u64>;
    /// Whether it was released by us, by way of a handle: [`LeaseHandle::is_released`].
    fn is_released(&self) -> bool;
    /// Why the lease was lost, if it was: [`LeaseHandle::lost_reason`].
    fn lost_reason(&self) -> Option<LossReason>;
    /// Ends when the lease is lost, with the reason: [`LeaseHandle::lost`].
    fn lost(&self) -> impl Future<Output = Error> + Send + 'static + use<>;
    /// Ends when the lease does, in whatever way: [`LeaseHandle::ended`].
    fn ended(&self) -> impl Future<Output = Option<Error>> + Send + 'static + use<>;
    /// Makes the lease last at least `ttl` from now: [`LeaseHandle::extend`].
    fn extend(&self, ttl: Duration) -> impl Future<Output = Result<()>> + Send + 'static + use<>;
    /// Ends the lease here and deletes nothing: [`LeaseHandle::detach`].
    fn detach(&self) -> bool;
    /// [`LeaseHandle::extend`] for programs without a runtime: [`LeaseHandle::extend_blocking`].
    fn extend_blocking(&self, ttl: Duration) -> Result<()>;
}

/// Sent, and not waited for. Where it cannot be sent, the node's next connection owes it; else the key lives
/// out its ttl.
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
