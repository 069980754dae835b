//! Helpers for tests of programs that use locks: an isolated client, a clock that the test advances, and simulated
//! failures.
//!
//! Requires the feature `testing`. Nothing here weakens a rule: the client's node is in this process, and no other
//! client accepts its clock.

mod clock;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{self, Either, join_all};
use uuid::Uuid;

pub use self::clock::TestClock;
use crate::client::Builder;
use crate::client::Redlock;
#[doc(hidden)]
pub use crate::clock::Polls;
pub use crate::clock::{Clock, Instant, Sleep, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Names;
use crate::node::{advance_memory, fail_memory, step_memory};
use crate::runtime::background;

/// How long [`TestRedlock::lose`] waits at most until the holders have been notified.
const MAX_NOTIFICATION_WAIT: Duration = Duration::from_secs(1);
/// How long [`TestRedlock::until_waiting`] and [`TestRedlock::until_held`] wait at most, by the clock of the machine.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How often [`TestRedlock::until_waiting`] and [`TestRedlock::until_held`] look.
const UNTIL_INTERVAL: Duration = Duration::from_millis(1);

/// A client for one test, with an isolated node in this process.
///
/// It otherwise behaves like a [`Redlock`]. Pass its `nodes` to other clients to share the node.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// use redlock::testing::TestRedlock;
/// let redlock = TestRedlock::new()?;
/// let theirs = redlock.hold("job").await?;
/// assert!(redlock.lock("job").try_acquire().await?.is_none());
/// theirs.release().await
/// # }
/// ```
pub struct TestRedlock {
    client: Redlock,
    /// The client whose leases stand for another holder.
    other: Redlock,
    node: String,
    /// The clock of the test, if it has one.
    clock: Option<TestClock>,
}

impl TestRedlock {
    /// A client with default options.
    pub fn new() -> Result<Self> {
        Self::with(|builder| builder)
    }

    /// A client with these options. The other holder of [`hold`](Self::hold) has the same options.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::with(|builder| builder.key_prefix("app:"))?;
    /// assert_eq!(redlock.lock("job").key(), "app:job");
    /// # Ok(()) }
    /// ```
    pub fn with(options: impl Fn(Builder) -> Builder) -> Result<Self> {
        let node = format!("test-{}", Uuid::new_v4().simple());
        let made = || options(Redlock::builder([format!("memory://{node}")])).build();
        let (client, other) = (made()?, made()?);
        Ok(Self { client, other, node, clock: None })
    }

    /// A client with default options and the clock of the test.
    ///
    /// Do not pass its `nodes` to other clients: with the system clock they would treat every key as expired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// use redlock::testing::{TestClock, TestRedlock};
    /// use std::time::Duration;
    /// let clock = TestClock::new();
    /// let redlock = TestRedlock::with_clock(&clock)?;
    /// let lease = redlock.lock("job").renew(false).acquire().await?;
    /// clock.advance(Duration::from_secs(9)).await;
    /// assert!(lease.is_held());
    /// clock.advance(Duration::from_secs(1)).await;
    /// assert!(!lease.is_held());
    /// # Ok(()) }
    /// ```
    pub fn with_clock(clock: &TestClock) -> Result<Self> {
        let mut made = Self::with(|builder| builder.clock(clock.shared()))?;
        clock.add_node(&made.node);
        made.clock = Some(clock.clone());
        Ok(made)
    }

    /// Acquires the lock as another client. Its `release()` releases the lock.
    ///
    /// # Errors
    ///
    /// `Timeout` if the lock is already held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let theirs = redlock.hold("job").await?;
    /// let error = redlock.lock("job").acquire_within(std::time::Duration::ZERO).await.unwrap_err();
    /// assert_eq!(error.code(), "timeout");
    /// theirs.release().await
    /// # }
    /// ```
    pub async fn hold(&self, names: impl Into<Names>) -> Result<Lease> {
        self.other.lock(names).acquire_within(Duration::ZERO).await
    }

    /// Takes the lock from its holder. Returns true if it was held.
    ///
    /// When the future completes, the affected leases of this client have been notified.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let lease = redlock.lock("job").acquire().await?;
    /// assert!(redlock.lose("job").await? && !lease.is_held());
    /// assert_eq!(lease.lost_reason(), Some(redlock::LossReason::Missing));
    /// # Ok(()) }
    /// ```
    pub async fn lose(&self, names: impl Into<Names>) -> Result<bool> {
        let lock = self.client.lock(names);
        let keys = lock.keys();
        let held = self.client.leases().into_iter();
        let held = held.filter(|lease| lease.keys().iter().any(|key| keys.contains(key)));
        // `ended` and not `lost`, because a lease that is released in the meantime is never lost.
        let ended = join_all(held.map(|lease| lease.ended()));
        let there = lock.force_release().await?;
        self.until_notified(ended).await;
        Ok(there)
    }

    /// Advances the time from one deadline to the next. Leases are renewed on the way.
    ///
    /// Leases that are not renewed or reach `max_hold` are lost, and waits end when they are over. When the future
    /// completes, the affected leases of this client have been notified. The test must poll its own futures
    /// concurrently.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// use std::time::Duration;
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let lease = redlock.lock("job").max_hold(Duration::from_secs(60)).acquire().await?;
    /// redlock.advance(Duration::from_secs(50)).await;
    /// assert!(lease.is_held());
    /// redlock.advance(Duration::from_secs(10)).await;
    /// assert_eq!(lease.lost_reason(), Some(redlock::LossReason::MaxHold));
    /// # Ok(()) }
    /// ```
    pub async fn advance(&self, time: Duration) {
        let held = self.client.leases();
        match &self.clock {
            Some(clock) => clock.advance(time).await,
            None => step_memory(&self.node, time).await,
        }
        self.until_lost(&held).await;
    }

    /// Advances the time at once, as if the machine had been suspended.
    ///
    /// A holder with less remaining time loses the lock, even with renewal. When the future completes, the affected
    /// leases of this client have been notified. Waits under way end earlier by `time`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let lease = redlock.lock("job").acquire().await?;
    /// redlock.jump(lease.ttl()).await;
    /// assert_eq!(lease.lost_reason(), Some(redlock::LossReason::Expired));
    /// # Ok(()) }
    /// ```
    pub async fn jump(&self, time: Duration) {
        let held = self.client.leases();
        match &self.clock {
            Some(clock) => clock.jump(time),
            None => advance_memory(&self.node, time),
        }
        self.until_lost(&held).await;
    }

    /// Waits until those of these leases that ended were notified.
    async fn until_lost(&self, held: &[LeaseHandle]) {
        let ended = join_all(held.iter().filter(|lease| !lease.is_held()).map(LeaseHandle::ended));
        self.until_notified(ended).await;
    }

    /// Waits for the notifications, at most for [`MAX_NOTIFICATION_WAIT`].
    async fn until_notified(&self, ended: impl Future) {
        future::select(pin!(ended), pin!(background::sleep(MAX_NOTIFICATION_WAIT))).await;
    }

    /// Waits until this many acquires of this client are under way, for at most 10 s. To wait less, drop the future.
    ///
    /// # Errors
    ///
    /// `Timeout` if fewer acquires are under way after 10 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let theirs = redlock.hold("job").await?;
    /// let (lease, released) = tokio::join!(redlock.lock("job").acquire(), async {
    ///     redlock.until_waiting(1).await?;
    ///     theirs.release().await
    /// });
    /// assert!(lease?.is_held() && released.is_ok());
    /// # Ok(()) }
    /// ```
    pub async fn until_waiting(&self, count: u64) -> Result<()> {
        let waiting = || self.client.stats().waiting;
        let reached = async {
            while waiting() < count {
                background::sleep(UNTIL_INTERVAL).await;
            }
            Ok(())
        };
        let few = || format!("{} acquires are under way, fewer than {count}", waiting());
        within_limit(reached, few).await
    }

    /// Waits until the lock is held, by any client, for at most 10 s. To wait less, drop the future.
    ///
    /// # Errors
    ///
    /// `Timeout` if the lock is not held after 10 s. As [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let theirs = redlock.hold("job").await?;
    /// redlock.until_held("job").await
    /// # }
    /// ```
    pub async fn until_held(&self, names: impl Into<Names>) -> Result<()> {
        let lock = self.client.lock(names);
        let reached = async {
            while !lock.inspect().await?.held {
                background::sleep(UNTIL_INTERVAL).await;
            }
            Ok(())
        };
        within_limit(reached, || format!("{}: not held", lock.key())).await
    }

    /// Makes the node fail until [`recover`](Self::recover).
    ///
    /// Acquires then fail with `Unavailable` when their `wait` is over, and leases expire because they cannot be
    /// renewed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// redlock.fail();
    /// let error = redlock.lock("job").acquire_within(std::time::Duration::ZERO).await.unwrap_err();
    /// assert_eq!(error.code(), "unavailable");
    /// redlock.recover();
    /// redlock.lock("job").acquire().await?.release().await
    /// # }
    /// ```
    pub fn fail(&self) {
        fail_memory(&self.node, true);
    }

    /// Makes the node reply again.
    pub fn recover(&self) {
        fail_memory(&self.node, false);
    }
}

/// Waits for at most [`MAX_WAIT`]. `missing` returns the text of the error.
async fn within_limit(
    reached: impl Future<Output = Result<()>>,
    missing: impl FnOnce() -> String,
) -> Result<()> {
    match future::select(pin!(reached), pin!(background::sleep(MAX_WAIT))).await {
        Either::Left((reached, _)) => reached,
        Either::Right(_) => Err(Error::new(ErrorKind::Timeout, &missing())),
    }
}

impl Deref for TestRedlock {
    type Target = Redlock;

    fn deref(&self) -> &Redlock {
        &self.client
    }
}

impl fmt::Debug for TestRedlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl Drop for TestRedlock {
    fn drop(&mut self) {
        // Leases that were granted can then be released.
        self.recover();
        self.other.close();
    }
}
