//! A clock for tests of programs, which stands still until the test advances it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;

use crate::clock::stepping::{Sleepers, Stepped, advance};
use crate::clock::{Clock, Instant, Polls, Sleep};
use crate::node::flush_memory;
use crate::runtime::lock;

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
        let flushed = || {
            let nodes = lock(&self.0.state).nodes.clone();
            async move { join_all(nodes.iter().map(|node| flush_memory(node))).await }
        };
        advance(&self.0, time, flushed).await;
    }

    /// Advances the clock at once, as for a process that was stopped and finds its leases lost.
    pub fn jump(&self, time: Duration) {
        self.0.set_time(self.elapsed().saturating_add(time));
    }

    /// Returns the clock as a client uses it. Only clients of this module do.
    pub(super) fn shared(&self) -> Arc<dyn Clock> {
        Arc::new(self.0.clone())
    }

    /// An advance then also waits for the commands of the node `memory://node`.
    pub(super) fn add_node(&self, node: &str) {
        lock(&self.0.state).nodes.push(node.to_owned());
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestClock({:?})", self.elapsed())
    }
}

/// A clock that stands still until a test moves it. It is not [`TestClock`] itself, whose type no client accepts.
#[derive(Clone, Default)]
struct ManualClock {
    state: Arc<Mutex<TestClockState>>,
    polls: Arc<Polls>,
}

/// The current time, the sleepers, and the names of the nodes of its clients.
#[derive(Default)]
struct TestClockState {
    now: Duration,
    sleepers: Sleepers,
    nodes: Vec<String>,
}

impl ManualClock {
    fn elapsed(&self) -> Duration {
        lock(&self.state).now
    }

    fn set_time(&self, at: Duration) {
        let mut state = lock(&self.state);
        // Of two concurrent calls, the later time wins.
        state.now = state.now.max(at);
        let now = Instant::from_start(state.now);
        let due = state.sleepers.due(now);
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }
}

impl Stepped for ManualClock {
    fn move_to(&self, at: Instant) {
        self.set_time(at.since(Instant::default()));
    }

    fn with_sleepers<T>(&self, read: impl FnOnce(&Sleepers) -> T) -> T {
        read(&lock(&self.state).sleepers)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        wall_micros(self.elapsed())
    }

    fn polls(&self) -> Option<&Polls> {
        Some(&self.polls)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let key = lock(&self.state).sleepers.key(at);
        Box::pin(TestSleeper { clock: self.clone(), key })
    }
}

/// A future that waits for its deadline.
struct TestSleeper {
    clock: ManualClock,
    key: (Instant, u64),
}

impl Future for TestSleeper {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.clock.state);
        if Instant::from_start(state.now) >= self.key.0 {
            let ended = state.sleepers.remove(self.key);
            drop(state);
            if let Some(ended) = ended {
                ended.notify_waiters();
            }
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, cx.waker());
        Poll::Pending
    }
}

impl Drop for TestSleeper {
    fn drop(&mut self) {
        let ended = lock(&self.clock.state).sleepers.remove(self.key);
        if let Some(ended) = ended {
            ended.notify_waiters();
        }
    }
}

/// The wall clock at the start, in microseconds since 1970.
const CLOCK_START: u64 = 1_700_000_000_000_000;

fn wall_micros(elapsed: Duration) -> u64 {
    CLOCK_START.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}
