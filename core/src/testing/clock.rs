//! A clock for tests of programs, which stands still until the test advances it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::{Clock, Instant, Sleep};
use crate::runtime::{background, lock};

/// A clock for [`TestRedlock::with_clock`](super::TestRedlock::with_clock) that stands still until
/// [`advance`](Self::advance) moves it.
///
/// Other clients do not accept it: a server would grant the lock to another client while the holder's clock stands
/// still. Copies are the same clock.
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
pub struct TestClock(ManualClock);

impl TestClock {
    /// A clock that stands at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much time has passed since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Advances the clock from one deadline to the next, and lets the woken tasks run after each.
    ///
    /// Renewals are sent on the way, waits end when they are over, and leases that are not renewed expire.
    ///
    /// The test must poll its own futures concurrently, for example an acquire in `tokio::join!` or in a task.
    pub async fn advance(&self, time: Duration) {
        self.0.advance(time).await;
    }

    /// Advances the clock at once, as for a process that was stopped and finds its leases lost.
    pub fn jump(&self, time: Duration) {
        self.0.set_time(self.elapsed().saturating_add(time));
    }

    /// Returns the clock as a client uses it. Only clients of this module do.
    pub(super) fn shared(&self) -> Arc<dyn Clock> {
        Arc::new(self.0.clone())
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
const SETTLE_INTERVAL: Duration = Duration::from_millis(2);
/// The maximum number of checks. The clock then advances anyway.
const MAX_CHECKS: u32 = 500;

/// A clock that stands still until a test moves it. It is not [`TestClock`] itself, whose type no client accepts.
#[derive(Clone, Default)]
struct ManualClock(Arc<Mutex<State>>);

/// The current time, and the sleepers.
#[derive(Default)]
struct State {
    now: Duration,
    /// The sleepers by deadline. A sleeper that is due and still listed was woken but not polled yet.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// Makes the keys of sleepers with the same deadline unique.
    next: u64,
}

impl ManualClock {
    fn elapsed(&self) -> Duration {
        lock(&self.0).now
    }

    async fn advance(&self, time: Duration) {
        let end = self.elapsed().saturating_add(time);
        self.settle().await;
        while let Some(at) = self.due_by(end) {
            self.set_time(at);
            self.settle().await;
        }
        self.set_time(end);
        self.settle().await;
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
            background::sleep(SETTLE_INTERVAL).await;
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

/// The wall clock at the start, in microseconds since 1970.
const START: u64 = 1_700_000_000_000_000;

fn wall_micros(elapsed: Duration) -> u64 {
    START.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}
