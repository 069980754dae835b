//! Handles: every query and operation on a lease.
//!
//! Handles hold no data. Each call reads the lease's state and compares it with the clock.

use std::fmt;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt};

use super::state::LeaseState;
use super::status::Status;
use super::{end, extend};
use crate::drivers;
use crate::error::{Error, LossReason, Result};
use crate::options::lock::{Unit, check_ttl};
use crate::runtime::CallTurn;
use crate::telemetry::Omitted;
use crate::text::shown;

/// A handle on a lease.
///
/// Clones refer to the same lease. Dropping a handle does not release the lease.
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
pub struct LeaseHandle(pub(crate) Arc<LeaseState>);

impl LeaseHandle {
    /// Whether the lease is certainly held at this moment.
    ///
    /// Compares the deadline with the clock, without I/O. Returns false from the deadline on, even if the loss is not
    /// reported yet.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Time until the lease ends, or zero if it has ended.
    ///
    /// Clock drift is already subtracted, so the keys live slightly longer.
    pub fn remaining(&self) -> Duration {
        self.0.deadline().map_or(Duration::ZERO, |deadline| deadline.since(self.0.now()))
    }

    /// Returns `Ok` while the lease is held, and otherwise an error with the reason.
    ///
    /// # Errors
    ///
    /// `Lost` if the lease was lost, `Released` if it was released or detached.
    pub fn ensure_held(&self) -> Result<()> {
        if self.is_held() { Ok(()) } else { Err(self.0.why_over()) }
    }

    /// The Redis key, with the client's prefix. Several keys are separated by commas.
    ///
    /// Use it to find the lock in `redis-cli`.
    pub fn key(&self) -> String {
        self.0.key()
    }

    /// The Redis keys, with the client's prefix.
    pub fn keys(&self) -> &[String] {
        self.0.keys()
    }

    /// The owner's token, which is the value of the key.
    ///
    /// 32 hex digits of a random UUID, followed by a colon and the [label](crate::Lock::label) if there is one.
    /// [`Lock::attach`](crate::Lock::attach) continues a lease by its token.
    pub fn token(&self) -> &str {
        &self.0.claim.token
    }

    /// The TTL that each renewal requests.
    ///
    /// It is the TTL of the lock, or of the last confirmed `extend`. Zero in a forked child.
    pub fn ttl(&self) -> Duration {
        self.0.ttl()
    }

    /// The fencing token.
    ///
    /// It is larger than the fencing token of every earlier lease of the same lock. A resource that remembers the
    /// largest token it has seen can therefore reject a holder whose lease has ended. See Kleppmann, "How to do
    /// distributed locking" (2016).
    ///
    /// # Errors
    ///
    /// `Invalid` if the lock was made without fencing, or if the lease was attached.
    ///
    /// # Examples
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
        self.0.fence.ok_or_else(|| {
            let text = "this lease has no fencing token. Create the lock with fencing on. Readers and permits have \
                none, and an attached lease has none either, so send it with the token";
            Error::invalid(format!("{}: {text}", shown(&self.key()))).about(&self.key())
        })
    }

    /// Whether the owner released the lease.
    ///
    /// True from the call of `release` on, even before the nodes confirm it. False after a loss.
    pub fn is_released(&self) -> bool {
        self.0.status() == Some(Status::Released)
    }

    /// Why the lease was lost, or `None` if it was not lost.
    ///
    /// The error of [`ensure_held`](Self::ensure_held) also reports how long ago.
    pub fn lost_reason(&self) -> Option<LossReason> {
        self.0.loss()?.loss_reason()
    }

    /// Waits until the lease is lost, and returns the reason.
    ///
    /// The future never completes if the lease is released or detached first.
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
        self.ended().then(|ended| match ended {
            Some(error) => Either::Left(ready(error)),
            None => Either::Right(pending()),
        })
    }

    /// Waits until the lease ends.
    ///
    /// Returns the reason if the lease was lost, and `None` if it was released or detached.
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
        let ended = async move {
            loop {
                let mut notified = std::pin::pin!(state.ended.notified());
                // Registered before the check, so that an end in between is not missed.
                notified.as_mut().enable();
                if !state.is_held() {
                    return state.loss();
                }
                notified.await;
            }
        };
        self.0.in_own_process(ended, LeaseState::loss)
    }

    /// Extends the lease to at least `ttl` from now, but not beyond `max_hold`. Once confirmed, later renewals also use
    /// this TTL.
    ///
    /// The command is sent when this method is called. It never shortens the lease.
    ///
    /// # Errors
    ///
    /// - `Invalid` if `ttl` breaks a rule for the lock's `ttl`.
    /// - `Lost` if the lease was lost, `Released` if it was released or detached.
    /// - `Unavailable` if too few nodes replied. The lease then stays valid until its deadline.
    ///
    /// # Examples
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
        let sent = self.check_ttl(ttl, state.request.options.unit);
        // Sent here and not in the future: a future that is never polled must extend the lease as well.
        let sent = sent.map(|()| extend::send(&state, ttl, false));
        drivers::flush();
        let extended = async move { extend::extend(state, sent?).await };
        let extended = self.0.in_own_process(extended, |state| Err(state.why_over()));
        async move {
            let (mut extended, mut turn) = (pin!(extended), CallTurn::default());
            poll_fn(move |cx| turn.poll(cx, |cx| extended.as_mut().poll(cx))).await
        }
    }

    /// Checks whether `ttl` is allowed for an extend. Messages use the caller's `unit`.
    ///
    /// The rules are those of the lock. Over several nodes, a longer TTL would exceed the restart guard.
    pub(crate) fn check_ttl(&self, ttl: Duration, unit: Unit) -> Result<()> {
        check_ttl(ttl, self.0.request.guard, unit)
    }

    /// Releases the lease, if it is still held.
    ///
    /// The command is sent when this method is called. The future waits for a quorum to confirm it. With
    /// [`Lock::min_hold`](crate::Lock::min_hold) the keys stay until that time has passed, but the lock is not held. A
    /// second release does nothing.
    ///
    /// # Errors
    ///
    /// - `Lost` if the lease was lost before.
    /// - `Unavailable` if too few nodes confirmed the release. The keys then expire when their TTL ends.
    ///
    /// # Examples
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
        self.release_after(false)
    }

    /// [`LeaseHandle::release`] at the end of a body. `completed` tells whether it ended with success, which matters
    /// for a run that happens once.
    pub(crate) fn release_after(
        &self,
        completed: bool,
    ) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        // Sent here and not in the future: a release whose future is dropped or cancelled must still delete the keys.
        let sent = end::release(&state, completed);
        drivers::flush();
        let confirmed = end::confirmed(state, sent, completed);
        self.0.in_own_process(confirmed, |state| Err(state.why_over()))
    }

    /// Ends the lease in this process without deleting its keys. Returns true if the lease was still held.
    ///
    /// The keys expire when their TTL ends, unless another process attached to their token and renews them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert!(lease.detach() && client.lock("job").inspect().await?.held);
    /// # Ok(()) }
    /// ```
    pub fn detach(&self) -> bool {
        end::detach(&self.0)
    }
}

impl LeaseHandle {
    /// Whether to log that no quorum confirmed the release at the end of a scope. An outage would log each one.
    pub(crate) fn logs_unconfirmed(&self) -> Option<Omitted> {
        let ours = !self.0.forked();
        ours.then(|| self.0.own.leases.unconfirmed.admit(self.0.now())).flatten()
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &shown(&self.key()))
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}
