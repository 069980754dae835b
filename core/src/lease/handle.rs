//! A handle on a lease: everything that can be asked of it, and done with it.
//!
//! Handles hold no data: whatever they answer is read from the lease's state, and compared with the clock, at
//! the call.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::state::State;
use super::{extend, release};
use crate::error::{Error, LossReason, Result};
use crate::foreground;
use crate::options::{Unit, check_min_hold, check_ttl};
use crate::text::shown;

/// A handle on a lease; clones are handles on the same one. Dropping it releases nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// use std::time::Duration;
/// let lease = client.lock("job").acquire().await?.into_handle();
/// assert!(lease.is_held() && lease.ensure_held().is_ok() && lease.remaining() > Duration::from_secs(9));
/// assert_eq!((lease.key().as_str(), lease.keys()[0].as_str(), lease.token().len()), ("lock:job", "lock:job", 32));
/// assert_eq!(lease.ttl(), Duration::from_secs(10));
/// assert!(!lease.is_released() && lease.lost_reason().is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LeaseHandle(pub(crate) Arc<State>);

impl LeaseHandle {
    /// Whether the lease is ours for sure at this moment: a comparison with the clock, no I/O.
    /// False from the deadline on, whether or not anybody was told yet.
    ///
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// What is left of the lease for sure; zero once it is over.
    ///
    /// Drift is taken off already: the keys live a little longer.
    pub fn remaining(&self) -> Duration {
        self.0.deadline().map_or(Duration::ZERO, |deadline| deadline.since(self.0.now()))
    }

    /// `Ok` while the lease is held, else the error that says why it is not.
    pub fn ensure_held(&self) -> Result<()> {
        if self.is_held() { Ok(()) } else { Err(self.0.why_over()) }
    }

    /// The Redis key; of several, all, separated by commas.
    ///
    /// With the client's prefix: what to look for in `redis-cli`.
    pub fn key(&self) -> String {
        self.0.key()
    }

    /// The Redis keys.
    pub fn keys(&self) -> &[String] {
        self.0.keys()
    }

    /// The owner's token: the value of the key.
    ///
    /// 32 hex digits, of a random UUID. [`Lock::attach`](crate::Lock::attach) continues the lease by it.
    pub fn token(&self) -> &str {
        &self.0.params.claim.token
    }

    /// How long each renewal makes the lease last.
    ///
    /// That of the lock, or of the last `extend` that was confirmed.
    pub fn ttl(&self) -> Duration {
        self.0.ttl()
    }

    /// The fencing token: larger than that of every earlier lease of the same lock, so that a resource that
    /// remembers the largest one it has seen can refuse a holder whose time is over.
    ///
    /// Fails with `Invalid` where none was asked for. See Kleppmann, "How to do distributed locking" (2016).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lock = client.lock("row").fencing(true);
    /// let first = lock.acquire().await?.fencing_token()?;
    /// assert!(lock.acquire().await?.fencing_token()? > first);
    /// # Ok(()) }
    /// ```
    pub fn fencing_token(&self) -> Result<u64> {
        self.0.params.fence.ok_or_else(|| {
            let text = "this lease has no fencing token: make the lock with fencing on; \
                        an attached lease has none, hand it over with the token";
            Error::invalid(format!("{}: {text}", shown(&self.key()))).about(&self.key())
        })
    }

    /// Whether it was released by us.
    ///
    /// True from the call of `release` on, whether or not it was confirmed; false after a loss.
    pub fn is_released(&self) -> bool {
        self.0.is_released()
    }

    /// Why the lease was lost, if it was.
    ///
    /// The error of [`ensure_held`](Self::ensure_held) also says how long ago.
    pub fn lost_reason(&self) -> Option<LossReason> {
        self.0.loss()?.loss_reason()
    }

    /// Ends when the lease is lost, with the reason; never, if it is released first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// client.close();
    /// assert_eq!(lease.lost().await.loss_reason(), Some(redlock::LossReason::Closed));
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = Error> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        async move {
            loop {
                let mut bell = std::pin::pin!(state.bell.notified());
                // Registered before the look: a loss in between would ring for nobody.
                bell.as_mut().enable();
                if let Some(error) = state.loss() {
                    return error;
                }
                bell.await;
            }
        }
    }

    /// Ends when the lease does, in whatever way: with the reason if it was lost, with `None` once it was released
    /// or detached.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// let ended = lease.ended();
    /// lease.release().await?;
    /// assert!(ended.await.is_none());
    /// # Ok(()) }
    /// ```
    pub fn ended(&self) -> impl Future<Output = Option<Error>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        async move {
            loop {
                let mut bell = std::pin::pin!(state.bell.notified());
                bell.as_mut().enable();
                if !state.is_held() {
                    return state.loss();
                }
                bell.await;
            }
        }
    }

    /// Makes the lease last at least `ttl` from now, which is also the ttl of later renewals once it is confirmed.
    /// Sent at the call.
    ///
    /// It never shortens the lease. Fails with `Lost` once the lease is over, and with `Unavailable` if too few
    /// nodes answered; then the lease goes on to its deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// lease.extend(std::time::Duration::from_secs(30)).await?;
    /// assert_eq!(lease.ttl().as_secs(), 30);
    /// # Ok(()) }
    /// ```
    pub fn extend(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        let sent = self.check_ttl(ttl, state.params.unit);
        // At the call, not at the first poll: a future that is never polled has extended all the same.
        let sent = sent.map(|()| extend::send(&state, ttl));
        foreground::flush();
        async move { extend::extend(state, sent?).await }
    }

    /// Whether the lease may be extended by this much; messages are in the caller's `unit`.
    ///
    /// The same rules as for the lock: over several nodes a longer one would outlive the restart guard.
    pub(crate) fn check_ttl(&self, ttl: Duration, unit: Unit) -> Result<()> {
        check_ttl(ttl, self.0.params.guard, unit)?;
        // A node that is healed has the keys for the last ttl alone.
        check_min_hold(self.0.params.min_hold, "ttl", ttl)
    }

    /// Gives the lease back, where it is still ours. Sent at the call; the future is the confirmation.
    ///
    /// With [`Lock::min_hold`](crate::Lock::min_hold) the keys stay until then, held by nobody. A second release does nothing. After a loss it fails with `Lost`; if too few nodes confirmed, with
    /// `Unavailable`: the keys then expire by themselves.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?.into_handle();
    /// lease.release().await?;
    /// assert!(lease.is_released());
    /// # Ok(()) }
    /// ```
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        // At the call: a release whose future is dropped, or cancelled, still deletes.
        let sent = release::send(&state);
        foreground::flush();
        release::confirmed(state, sent)
    }

    /// Ends the lease here and deletes nothing: the keys live out their ttl, or go on under who attached to their
    /// token. True if the lease was still held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert!(lease.detach() && client.lock("job").inspect().await?.held);
    /// # Ok(()) }
    /// ```
    pub fn detach(&self) -> bool {
        release::detach(&self.0)
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key())
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}
