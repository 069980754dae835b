//! A clock for tests of programs, which stands still until the test advances it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;

use crate::clock::stepping::advance;
use crate::clock::{Clock, Instant, OffsetClock};
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
#[derive(Clone)]
pub struct TestClock {
    /// Not this type itself, which no client accepts.
    clock: OffsetClock,
    /// The names of the nodes of its clients.
    nodes: Arc<Mutex<Vec<String>>>,
}

impl TestClock {
    /// A clock that stands at its start.
    pub fn new() -> Self {
        Self { clock: OffsetClock::standing_still(), nodes: Arc::default() }
    }

    /// How much time has passed since the start.
    pub fn elapsed(&self) -> Duration {
        self.clock.now().since(Instant::default())
    }

    /// Advances the clock from one deadline to the next, and lets the woken tasks run after each.
    ///
    /// Renewals are sent on the way, waits end when they are over, and leases that are not renewed expire.
    ///
    /// The test must poll its own futures concurrently, for example an acquire in `tokio::join!` or in a task.
    pub async fn advance(&self, time: Duration) {
        let flushed = || {
            let nodes = lock(&self.nodes).clone();
            async move { join_all(nodes.iter().map(|node| flush_memory(node))).await }
        };
        advance(&self.clock, time, flushed).await;
    }

    /// Advances the clock at once, as for a process that was stopped and finds its leases lost.
    pub fn jump(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Returns the clock as a client uses it. Only clients of this module do.
    pub(super) fn shared(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// An advance then also waits for the commands of the node `memory://node`.
    pub(super) fn add_node(&self, node: &str) {
        lock(&self.nodes).push(node.to_owned());
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestClock({:?})", self.elapsed())
    }
}
