//! Clocks for tests of programs: one that the test advances, and tokio's time, which may be paused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::manual_clock::ManualClock;
use super::tokio_time::TokioTime;
use crate::client::Builder;
use crate::error::Result;
use crate::runtime::background;

/// A clock for [`TestRedlock::with_clock`](super::TestRedlock::with_clock) that stands still until
/// [`advance`](Self::advance) moves it.
///
/// Other clients do not accept it: a server would grant the lock to another client while the holder's clock stands
/// still. [`TestClock::tokio`] follows the time of a tokio runtime instead, paused or not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// use redlock::testing::{TestClock, TestRedlock};
/// use std::time::Duration;
/// let clock = TestClock::new();
/// let redlock = TestRedlock::with_clock(&clock)?;
/// let lease = redlock.lock("job").max_hold(Duration::from_secs(3600)).acquire().await?;
/// clock.advance(Duration::from_secs(3599)).await; // It is renewed on the way.
/// assert!(lease.is_held());
/// clock.advance(Duration::from_secs(1)).await;
/// assert_eq!(lease.lost().await.reason(), Some("max_hold"));
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// use std::sync::Arc;
/// let clock = Arc::new(redlock::testing::TestClock::new());
/// let client = redlock::Redlock::builder(["redis://10.0.0.7"]).clock(clock);
/// ```
#[derive(Clone, Default)]
pub struct TestClock(Kind);

/// What moves the clock.
#[derive(Clone)]
enum Kind {
    Test(ManualClock),
    Runtime(TokioTime),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Test(ManualClock::default())
    }
}

impl TestClock {
    /// A clock that stands at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time of the current tokio runtime.
    ///
    /// If that time is paused, waits, renewals and ends of leases happen immediately and in order while the test
    /// sleeps. Clients with this clock keep their leases in tasks of this runtime, not on the library's thread.
    ///
    /// Use these clients only inside this runtime, and only while it runs. Otherwise nothing renews their leases.
    /// Paused time then stands still, so waiting for a held lock never ends, whatever its `wait`.
    ///
    /// # Errors
    ///
    /// `Invalid` outside a tokio runtime, and in a runtime without timers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> redlock::Result<()> {
    /// // In a test: #[tokio::test(start_paused = true)]
    /// use redlock::testing::{TestClock, TestRedlock};
    /// use std::time::Duration;
    /// let redlock = TestRedlock::with_clock(&TestClock::tokio()?)?;
    /// let renewed = redlock.lock("renewed").acquire().await?;
    /// let left = redlock.lock("left").renew(false).acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(40)).await;
    /// assert!(renewed.is_held() && !left.is_held());
    /// assert_eq!(left.lost().await.reason(), Some("expired"));
    /// # Ok(()) }
    /// ```
    pub fn tokio() -> Result<Self> {
        TokioTime::here().map(|time| Self(Kind::Runtime(time)))
    }

    /// How much time has passed since the start.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Test(clock) => clock.elapsed(),
            Kind::Runtime(clock) => clock.elapsed(),
        }
    }

    /// Advances the clock from one deadline to the next, and lets the woken tasks run after each.
    ///
    /// Renewals are sent on the way, waits end when they are over, and leases that are not renewed expire. With
    /// [`TestClock::tokio`] this is a sleep.
    ///
    /// The test must poll its own futures concurrently, for example an acquire in `tokio::join!` or in a task.
    pub async fn advance(&self, time: Duration) {
        match &self.0 {
            Kind::Test(clock) => clock.advance(time).await,
            Kind::Runtime(clock) => clock.advance(time).await,
        }
    }

    /// Advances the clock at once, as for a process that was stopped and finds its leases lost.
    ///
    /// With [`TestClock::tokio`], the leases are ahead of the runtime by `time` from then on.
    pub fn jump(&self, time: Duration) {
        match &self.0 {
            Kind::Test(clock) => clock.jump(time),
            Kind::Runtime(clock) => clock.jump(time),
        }
    }

    /// Waits briefly, so that other tasks can run.
    pub(super) async fn moment(&self, time: Duration) {
        match &self.0 {
            Kind::Test(_) => background::sleep(time).await,
            Kind::Runtime(clock) => clock.moment(time).await,
        }
    }

    /// Sets the clock of a client. Only clients of this module use it.
    pub(super) fn given_to(&self, client: Builder) -> Builder {
        match &self.0 {
            Kind::Test(clock) => client.hosted(Arc::new(clock.clone()), None),
            Kind::Runtime(clock) => client.hosted(Arc::new(clock.clone()), Some(clock.runtime())),
        }
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestClock({:?})", self.elapsed())
    }
}
