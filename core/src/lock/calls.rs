//! Other ways to call a lock: with another `wait`, awaited, around a closure, and blocking.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::drivers;
use crate::engine::{NodeReplies, Stored};
use crate::error::{ErrorKind, Result};
use crate::lease::{Lease, LeaseHandle};
use crate::lock::{Inspection, Lock};
use crate::options::client::Config;
use crate::options::lock::check_time;
use crate::telemetry::log;

impl Lock {
    /// [`Lock::acquire`] with another `wait`. `None` waits forever, and zero tries once.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`], and `Invalid` if `wait` exceeds ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// use std::time::Duration;
    /// let lock = client.lock("job");
    /// let lease = lock.acquire_within(None).await?;
    /// assert_eq!(lock.acquire_within(Duration::from_millis(50)).await.unwrap_err().code(), "timeout");
    /// # Ok(()) }
    /// ```
    pub fn acquire_within<W>(&self, wait: W) -> impl Future<Output = Result<Lease>> + Send + use<W>
    where
        W: Into<Option<Duration>>,
    {
        let wait = wait.into();
        let rule = wait.map_or(Ok(()), |wait| check_time("wait", wait));
        let rule = rule.map_err(|error| error.about(&self.key()));
        let (engine, request) = self.parts_with(wait);
        let acquired = engine.acquire(request, wait, None);
        async move {
            rule?;
            acquired.await
        }
    }

    /// Runs `body` while the lock is held. Acquires the lock, runs the body, releases the lock and returns the body's
    /// result.
    ///
    /// If the lease is lost, the body is dropped at its next `await`. If too few nodes confirm the release, this is
    /// only logged and the keys expire when their TTL ends.
    ///
    /// # Errors
    ///
    /// - `Lost` if the lease was lost before the body ended.
    /// - As [`Lock::acquire`], before the body is called.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let total = client.lock("stock:9").using(async |lease| {
    ///     assert!(lease.is_held());
    ///     20 + 22
    /// });
    /// assert_eq!(total.await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn using<T, F>(&self, body: F) -> impl Future<Output = Result<T>> + use<T, F>
    where
        F: AsyncFnOnce(LeaseHandle) -> T,
    {
        let acquired = self.acquire();
        async move {
            let lease = acquired.await?;
            let value = while_held(&lease, body(lease.handle())).await?;
            ended(lease, true).await.map(|()| value)
        }
    }
}

impl Lock {
    /// Returns the locks of this client's prefix that have keys on the nodes. The name and the options do not matter.
    pub(crate) fn stored(&self) -> impl Future<Output = Result<Stored>> + Send + 'static + use<> {
        let (engine, request) = (Arc::clone(&self.engine), self.request_of_any());
        async move { engine.stored(&request?).await }
    }

    /// Sends these commands to every server of this client. The name and the options do not matter.
    pub(crate) fn questions(
        &self,
        commands: Vec<Vec<String>>,
    ) -> impl Future<Output = Result<Vec<NodeReplies>>> + Send + 'static + use<> {
        let (engine, request) = (Arc::clone(&self.engine), self.request_of_any());
        async move { engine.questions(&request?, commands).await }
    }

    /// The options of the client, with their defaults.
    pub(crate) fn config(&self) -> &Config {
        &self.engine.config
    }
}

/// Awaits the body of a call, or the loss of its lease.
///
/// Not `tokio::select!`, which takes part in tokio's cooperative budget. Under another executor in a task without
/// budget, it would never end.
pub(super) async fn while_held<T>(lease: &Lease, body: impl Future<Output = T>) -> Result<T> {
    let (mut lost, mut body) = (pin!(lease.lost()), pin!(body));
    poll_fn(move |cx| {
        // First, so that the body does not continue without the lock.
        if let Poll::Ready(error) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(error));
        }
        body.as_mut().poll(cx).map(Ok)
    })
    .await
}

/// Releases the lease after a body. `completed` tells whether it ended with success. An unconfirmed release is not an
/// error of the body.
pub(super) async fn ended(lease: Lease, completed: bool) -> Result<()> {
    let handle = lease.into_handle();
    match handle.release_after(completed).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            if let Some(omitted) = handle.logs_unconfirmed() {
                log::event!(
                    Warn, Lease, { key: handle.key() },
                    "not released: {why}{omitted}", why = error, omitted = omitted
                );
            }
            Ok(())
        }
        confirmed => confirmed,
    }
}

/// The future of an awaited lock.
type Acquire = Pin<Box<dyn Future<Output = Result<Lease>> + Send>>;

/// `client.lock("job").await?` is the same as `client.lock("job").acquire().await?`.
impl IntoFuture for Lock {
    type Output = Result<Lease>;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        Box::pin(self.acquire())
    }
}

/// Awaiting a reference leaves the lock usable.
impl IntoFuture for &Lock {
    type Output = Result<Lease>;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        Box::pin(self.acquire())
    }
}

/// The longest single wait. Longer waits are repeated.
const MAX_SINGLE_WAIT: Duration = Duration::from_secs(3600);

/// Runs a call's future to completion on this thread.
pub(crate) fn outcome<F: Future>(call: impl FnOnce() -> F) -> F::Output {
    // Begun before the call, because some calls send their command immediately.
    let _waits = drivers::about_to_wait();
    let mut future = pin!(call());
    loop {
        if let Poll::Ready(outcome) = drivers::wait(future.as_mut(), MAX_SINGLE_WAIT) {
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

    /// [`Lock::using`] for programs without a runtime, with the same errors.
    ///
    /// A loss does not end the body: it can check the lease with [`ensure_held`](LeaseHandle::ensure_held).
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let total = client.lock("stock:9").using_blocking(|lease| {
    ///     assert!(lease.is_held());
    ///     20 + 22
    /// });
    /// assert_eq!(total?, 42);
    /// # Ok(()) }
    /// ```
    pub fn using_blocking<T>(&self, body: impl FnOnce(LeaseHandle) -> T) -> Result<T> {
        let lease = self.acquire_blocking()?;
        let value = body(lease.handle());
        outcome(|| ended(lease, true)).map(|()| value)
    }

    /// [`Lock::attach`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let ours = client.lock("job").acquire_blocking()?;
    /// let theirs = client.lock("job").attach_blocking(ours.token())?; // as a rule in another process
    /// assert!(ours.detach() && theirs.is_held());
    /// # Ok(()) }
    /// ```
    pub fn attach_blocking(&self, token: &str) -> Result<Lease> {
        outcome(|| self.attach(token))
    }

    /// [`Lock::inspect`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire_blocking()?;
    /// assert!(client.lock("job").inspect_blocking()?.held);
    /// # lease.release_blocking()
    /// # }
    /// ```
    pub fn inspect_blocking(&self) -> Result<Inspection> {
        outcome(|| self.inspect())
    }

    /// [`Lock::force_release`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let pool = client.semaphore("pool", 2);
    /// let lease = pool.acquire_blocking()?;
    /// assert!(pool.force_release_blocking()? && !pool.inspect_blocking()?.held);
    /// # Ok(()) }
    /// ```
    pub fn force_release_blocking(&self) -> Result<bool> {
        outcome(|| self.force_release())
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
