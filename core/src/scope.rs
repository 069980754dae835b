//! A lock's shortest ways: awaited as it stands, and around a body.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Lock;
use crate::log;
use crate::options::check_time;

impl Lock {
    /// [`Lock::acquire`] with another `wait`: `None` is for ever, zero one round.
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
        let acquired = self.acquire_as(wait, None);
        async move {
            rule?;
            acquired.await
        }
    }

    /// What the body gives, which runs while the lock is held: acquires, runs it, and releases.
    ///
    /// A body is dropped where it stands, at its next `await`, as soon as the lease is lost, and the outcome is `Lost`. So
    /// it is if the lease was lost when the body ended. A release that too few nodes confirm is logged: the keys expire. Fails otherwise as [`Lock::acquire`] does, before the body is called.
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
            let value = tokio::select! {
                // A body that nobody protects any more gets no step further.
                biased;
                error = lease.lost() => return Err(error),
                value = body(lease.handle()) => value,
            };
            ended(lease).await.map(|()| value)
        }
    }
}

/// The end of a scope: what was not confirmed is no error of the body's.
async fn ended(lease: Lease) -> Result<()> {
    match lease.release().await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            say_unconfirmed(&error);
            Ok(())
        }
        confirmed => confirmed,
    }
}

fn say_unconfirmed(error: &Error) {
    let key = error.resource().unwrap_or_default();
    log::event!(Warn, Lease, { key: key }, "the key lives out its ttl: {why}", why = error);
}

/// An acquire, as `await` makes it of a lock.
type Acquire = Pin<Box<dyn Future<Output = Result<Lease>> + Send>>;

/// `client.lock("job").await?` is `client.lock("job").acquire().await?`.
impl IntoFuture for Lock {
    type Output = Result<Lease>;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        Box::pin(self.acquire())
    }
}

/// As of the lock itself, which can be awaited again.
impl IntoFuture for &Lock {
    type Output = Result<Lease>;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        Box::pin(self.acquire())
    }
}
