//! A clock that stands still until a test moves it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::background;
use crate::clock::{Clock, Instant, Sleep};

/// So many turns of the background thread what was woken has to do what it was woken for: each may wake another.
const TURNS: u32 = 8;
/// So long, by the machine's clock, is waited between two looks at whether everybody who is due has come.
const MOMENT: Duration = Duration::from_millis(2);
/// So often is looked; then time goes on all the same.
const MOMENTS: u32 = 500;
/// What the wall clock says at the start: some day of 2023.
const WALL: u64 = 1_700_000_000_000_000;

/// A clock that stands still until [`advance`](Self::advance) moves it, for [`TestRedlock::by`](super::TestRedlock::by).
/// No other client takes it: by a clock that stands, a server would give the lock away under its holder.
///
/// It is not tokio's paused time, which the library's own thread has no part in: a test that pauses that moves both.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// use redlock::testing::{TestClock, TestRedlock};
/// use std::time::Duration;
/// let clock = TestClock::new();
/// let redlock = TestRedlock::by(&clock)?;
/// let lease = redlock.lock("job").max_hold(Duration::from_secs(3600)).acquire().await?;
/// clock.advance(Duration::from_secs(3599)).await; // It is renewed on the way.
/// assert!(lease.held());
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
pub struct TestClock(Arc<Mutex<Hands>>);

/// Where it stands, and who waits for what.
#[derive(Default)]
struct Hands {
    now: Duration,
    /// Sleepers by their ends; those that are due and still here were woken and have not looked yet.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// So that two that end together are two.
    next: u64,
}

impl TestClock {
    /// It stands at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// So much time has passed since the start.
    pub fn elapsed(&self) -> Duration {
        self.hands().now
    }

    /// Time passes: from one deadline to the next, each of which has a moment to do what it does. Renewals are sent on the way,
    /// waiting ends where it is over, and leases end where nobody renewed them.
    ///
    /// What the test itself has to poll, as an acquire that it holds, it polls beside this, in `tokio::join!` or a task.
    pub async fn advance(&self, time: Duration) {
        let end = self.elapsed().saturating_add(time);
        self.settle().await;
        while let Some(at) = self.due_by(end) {
            self.stand_at(at);
            self.settle().await;
        }
        self.stand_at(end);
        self.settle().await;
    }

    /// Time passes at once: as for a process that was stopped meanwhile, which finds its leases lost.
    pub fn jump(&self, time: Duration) {
        let at = self.elapsed().saturating_add(time);
        self.stand_at(at);
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first end that is still to come, if it comes by then.
    fn due_by(&self, end: Duration) -> Option<Duration> {
        let hands = self.hands();
        let mut ends = hands.sleepers.keys().map(|(at, _)| *at);
        ends.find(|at| *at > hands.now).filter(|at| *at <= end)
    }

    fn stand_at(&self, at: Duration) {
        let mut hands = self.hands();
        // Two who move it at once move it forward only.
        hands.now = hands.now.max(at);
        let due = hands.sleepers.range(..=(hands.now, u64::MAX));
        let wakers: Vec<Waker> = due.map(|(_, waker)| waker.clone()).collect();
        drop(hands);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Until all who are due have looked, and had their turns for what they saw.
    async fn settle(&self) {
        for _ in 0..MOMENTS {
            for _ in 0..TURNS {
                turn().await;
            }
            if !self.anybody_is_due() {
                return;
            }
            background::sleep(MOMENT).await;
        }
    }

    fn anybody_is_due(&self) -> bool {
        let hands = self.hands();
        hands.sleepers.first_key_value().is_some_and(|((at, _), _)| *at <= hands.now)
    }

    /// As the library asks it.
    pub(super) fn ticking(&self) -> Ticking {
        Ticking(self.clone())
    }
}

/// Ends once the background thread has done all that was waiting for it.
async fn turn() {
    let (done, seen) = oneshot::channel();
    background::spawn(async move { drop(done) }).detach();
    // It is dropped, or there is no thread.
    let _: Result<(), _> = seen.await;
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestClock({:?})", self.elapsed())
    }
}

/// The clock as a client's: a type that only this crate can name, so that no other client gets one.
pub(super) struct Ticking(TestClock);

impl Clock for Ticking {
    fn now(&self) -> Instant {
        Instant::from_start(self.0.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        let since = u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX);
        WALL.saturating_add(since)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let mut hands = self.0.hands();
        hands.next += 1;
        let at = at.since(Instant::default());
        let sleeper = Sleeper { clock: self.0.clone(), key: (at, hands.next) };
        drop(hands);
        Box::pin(sleeper)
    }
}

/// Somebody who sleeps by the clock.
struct Sleeper {
    clock: TestClock,
    key: (Duration, u64),
}

impl Future for Sleeper {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut hands = self.clock.hands();
        if hands.now >= self.key.0 {
            hands.sleepers.remove(&self.key);
            return Poll::Ready(());
        }
        hands.sleepers.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.clock.hands().sleepers.remove(&self.key);
    }
}
