//! Clocks for tests of programs: one that the test advances, and tokio's time, which may be paused.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::tokio_time::TokioTime;
use super::tokio_time::wall_micros;
use crate::client::Builder;
use crate::clock::{Clock, Instant, Sleep};
use crate::error::Result;
use crate::runtime::{background, lock};

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
    /// Use these clients only inside this runtime, and only while it runs. Otherwise nothing renews their leases, and
    /// their time stands still. Waiting for a held lock then never ends, or panics if the runtime has ended.
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
            Kind::Runtime(clock) => clock.advance(time).await,
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

/// How many turns of the background thread woken tasks get to do their work, because each may wake another.
const TURNS_PER_CHECK: u32 = 8;
/// How long to wait, by the system clock, between two checks whether all due sleepers have run.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// The maximum number of checks. The clock then advances anyway.
const MAX_CHECKS: u32 = 500;

/// A clock that stands still until a test moves it. Copies are the same clock.
#[derive(Clone, Default)]
pub(super) struct ManualClock(Arc<Mutex<ManualState>>);

/// The current time, and the sleepers.
#[derive(Default)]
struct ManualState {
    now: Duration,
    /// The sleepers by deadline. A sleeper that is due and still listed was woken but not polled yet.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// Makes the keys of sleepers with the same deadline unique.
    next: u64,
}

impl ManualClock {
    pub(super) fn elapsed(&self) -> Duration {
        lock(&self.0).now
    }

    /// Advances from one deadline to the next, and lets the woken tasks run after each.
    pub(super) async fn advance(&self, time: Duration) {
        let end = self.elapsed().saturating_add(time);
        self.settle().await;
        while let Some(at) = self.due_by(end) {
            self.set_time(at);
            self.settle().await;
        }
        self.set_time(end);
        self.settle().await;
    }

    pub(super) fn jump(&self, time: Duration) {
        let at = self.elapsed().saturating_add(time);
        self.set_time(at);
    }

    /// The next deadline that is not later than `end`.
    fn due_by(&self, end: Duration) -> Option<Duration> {
        let state = lock(&self.0);
        let mut ends = state.sleepers.keys().map(|(at, _)| *at);
        ends.find(|at| *at > state.now).filter(|at| *at <= end)
    }

    fn set_time(&self, at: Duration) {
        let mut state = lock(&self.0);
        // Of two concurrent calls, the later time wins.
        state.now = state.now.max(at);
        let due = state.sleepers.range(..=(state.now, u64::MAX));
        let wakers: Vec<Waker> = due.map(|(_, waker)| waker.clone()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until all due sleepers were polled and their tasks had some turns.
    async fn settle(&self) {
        for _ in 0..MAX_CHECKS {
            for _ in 0..TURNS_PER_CHECK {
                turn().await;
            }
            if !self.has_due_sleeper() {
                return;
            }
            background::sleep(CHECK_INTERVAL).await;
        }
    }

    fn has_due_sleeper(&self) -> bool {
        let state = lock(&self.0);
        state.sleepers.first_key_value().is_some_and(|((at, _), _)| *at <= state.now)
    }
}

/// Waits until the background thread has run everything that was queued.
async fn turn() {
    let (done, seen) = oneshot::channel();
    background::spawn(async move { drop(done) }).detach();
    // The task drops the sender. Without a thread, it was dropped before.
    let _: Result<(), _> = seen.await;
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        wall_micros(self.elapsed())
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let mut state = lock(&self.0);
        state.next += 1;
        let at = at.since(Instant::default());
        let sleeper = Sleeper { clock: self.clone(), key: (at, state.next) };
        drop(state);
        Box::pin(sleeper)
    }
}

/// A future that waits for its deadline.
struct Sleeper {
    clock: ManualClock,
    key: (Duration, u64),
}

impl Future for Sleeper {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.clock.0);
        if state.now >= self.key.0 {
            state.sleepers.remove(&self.key);
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        lock(&self.clock.0).sleepers.remove(&self.key);
    }
}
