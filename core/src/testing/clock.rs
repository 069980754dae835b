//! Clocks for tests of programs: one that the test moves, and tokio's time, which a runtime may have paused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::standing::Standing;
use super::tokio_time::TokioTime;
use crate::background;
use crate::builder::Builder;
use crate::error::Result;

/// A clock that stands still until [`advance`](Self::advance) moves it, for [`TestRedlock::with_clock`](super::TestRedlock::with_clock).
/// No other client takes it: by a clock that stands, a server would give the lock away under its holder.
///
/// [`TestClock::tokio`] is the time of tokio's runtime instead, paused or not.
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

/// Who moves it.
#[derive(Clone)]
enum Kind {
    Test(Standing),
    Runtime(TokioTime),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Test(Standing::default())
    }
}

impl TestClock {
    /// It stands at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time of the runtime of tokio's that runs here. Where that is paused, waits, renewals and ends of leases come as the
    /// test sleeps, at once and in their order. Its clients keep their leases by tasks of this runtime, not by the library's
    /// own thread. Fails with `Invalid` outside of a runtime, and in one without timers.
    ///
    /// They are for use inside of this runtime, while somebody runs it: else nobody renews their leases, and where time
    /// is paused it stands, so that waiting for a lock that is held has no end, whatever its `wait`.
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

    /// So much time has passed since the start.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Test(clock) => clock.elapsed(),
            Kind::Runtime(clock) => clock.elapsed(),
        }
    }

    /// Time passes: from one deadline to the next, each of which has a moment to do what it does. Renewals are sent on the way,
    /// waiting ends where it is over, and leases end where nobody renewed them. By [`TestClock::tokio`] it is a sleep.
    ///
    /// What the test itself has to poll, as an acquire that it holds, it polls beside this, in `tokio::join!` or a task.
    pub async fn advance(&self, time: Duration) {
        match &self.0 {
            Kind::Test(clock) => clock.advance(time).await,
            Kind::Runtime(clock) => clock.advance(time).await,
        }
    }

    /// Time passes at once: as for a process that was stopped meanwhile, which finds its leases lost. Where it is tokio's, leases
    /// are that much ahead of the runtime from then on.
    pub fn jump(&self, time: Duration) {
        match &self.0 {
            Kind::Test(clock) => clock.jump(time),
            Kind::Runtime(clock) => clock.jump(time),
        }
    }

    /// A moment for others to do what they do, by whatever moves them.
    pub(super) async fn moment(&self, time: Duration) {
        match &self.0 {
            Kind::Test(_) => background::sleep(time).await,
            Kind::Runtime(clock) => clock.moment(time).await,
        }
    }

    /// What a client asks; only the clients of this module get it.
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
