//! Help for tests of programs that lock: a client of a test's own, a clock that the test moves, and what can go wrong, at
//! will. With the feature `testing`.
//!
//! Nothing here is a way around a rule: the client's node is in this process, and its clock goes to no other client.

mod clock;
mod standing;
mod tokio_time;
mod wall;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{self, join_all};
use uuid::Uuid;

pub use self::clock::TestClock;
use crate::background;
use crate::builder::Builder;
use crate::client::Redlock;
pub use crate::clock::{Clock, Instant, Sleep, SystemClock};
use crate::error::Result;
use crate::lease::{Lease, LeaseHandle};
use crate::names::Names;
use crate::node::{advance_memory, fail_memory};

/// How long [`TestRedlock::lose`] waits at most until holders have been told.
const TOLD: Duration = Duration::from_secs(1);

/// A client over a node in this process that nobody else has, for one test. It is a [`Redlock`] in all else; its `nodes` may
/// be given to other clients, so that they share it.
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
    /// Who holds what somebody else holds.
    other: Redlock,
    node: String,
    /// The test's own, if it is by one.
    clock: Option<TestClock>,
}

impl TestRedlock {
    /// With default options.
    pub fn new() -> Result<Self> {
        Self::with(|builder| builder)
    }

    /// With the options that this gives to both, the client and who holds against it.
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

    /// With default options, by a clock that stands still until the test moves it, or by tokio's. Its `nodes` are for
    /// no other client: one by the machine's clock would count every key as expired.
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
        let mut made = Self::with(|builder| clock.given_to(builder))?;
        made.clock = Some(clock.clone());
        Ok(made)
    }

    /// Somebody else holds the lock from now on: another client's lease, which `release()` lets go. `Timeout` if the lock is
    /// held already.
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

    /// Whoever holds the lock loses it now, and leases of this client have been told when this ends. True if somebody held it.
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
        // `ended`, as one that is released meanwhile is lost to nobody.
        let told = join_all(held.map(|lease| lease.ended()));
        let there = lock.force_release().await?;
        self.or_late(told).await;
        Ok(there)
    }

    /// So much time passes at once, as on a machine that was suspended: whoever has less left loses the lock, renewed or not, and
    /// leases of this client have been told when this ends. Waits that are under way end so much earlier.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// let redlock = redlock::testing::TestRedlock::new()?;
    /// let lease = redlock.lock("job").acquire().await?;
    /// redlock.advance(lease.ttl()).await;
    /// assert_eq!(lease.lost_reason(), Some(redlock::LossReason::Expired));
    /// # Ok(()) }
    /// ```
    pub async fn advance(&self, time: Duration) {
        let held = self.client.leases();
        match &self.clock {
            Some(clock) => clock.jump(time),
            None => advance_memory(&self.node, time),
        }
        let told = join_all(held.iter().filter(|lease| !lease.is_held()).map(LeaseHandle::ended));
        self.or_late(told).await;
    }

    /// The end of this, or of the time that it may take.
    async fn or_late(&self, told: impl Future) {
        let clock = self.clock.clone();
        let late = async move {
            match clock {
                Some(clock) => clock.moment(TOLD).await,
                None => background::sleep(TOLD).await,
            }
        };
        future::select(pin!(told), pin!(late)).await;
    }

    /// No node answers from now on, until [`recover`](Self::recover): acquires end with `Unavailable` once their `wait` is
    /// over, and leases that are not renewed end with their ttl.
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

    /// The node answers again.
    pub fn recover(&self) {
        fail_memory(&self.node, false);
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
        // What was granted can be given back then.
        self.recover();
        self.other.close();
    }
}
