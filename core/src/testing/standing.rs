//! A clock that stands still until a test moves it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::wall::wall_micros;
use crate::clock::{Clock, Instant, Sleep};
use crate::runtime::background;

/// How many turns of the background thread woken tasks get to do their work, because each may wake another.
const TURNS: u32 = 8;
/// How long to wait, by the system clock, between two checks whether all due sleepers have run.
const MOMENT: Duration = Duration::from_millis(2);
/// The maximum number of checks. The clock then advances anyway.
const MOMENTS: u32 = 500;

/// A clock that stands still until a test moves it. Copies are the same clock.
#[derive(Clone, Default)]
pub(super) struct Standing(Arc<Mutex<Hands>>);

/// The current time, and the sleepers.
#[derive(Default)]
struct Hands {
    now: Duration,
    /// The sleepers by deadline. A sleeper that is due and still listed was woken but not polled yet.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// Makes the keys of sleepers with the same deadline unique.
    next: u64,
}

impl Standing {
    /// How much time has passed since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.hands().now
    }

    /// Advances from one deadline to the next, and lets the woken tasks run after each.
    pub(super) async fn advance(&self, time: Duration) {
        let end = self.elapsed().saturating_add(time);
        self.settle().await;
        while let Some(at) = self.due_by(end) {
            self.stand_at(at);
            self.settle().await;
        }
        self.stand_at(end);
        self.settle().await;
    }

    /// Advances the clock at once.
    pub(super) fn jump(&self, time: Duration) {
        let at = self.elapsed().saturating_add(time);
        self.stand_at(at);
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next deadline that is not later than `end`.
    fn due_by(&self, end: Duration) -> Option<Duration> {
        let hands = self.hands();
        let mut ends = hands.sleepers.keys().map(|(at, _)| *at);
        ends.find(|at| *at > hands.now).filter(|at| *at <= end)
    }

    fn stand_at(&self, at: Duration) {
        let mut hands = self.hands();
        // Of two concurrent calls, the later time wins.
        hands.now = hands.now.max(at);
        let due = hands.sleepers.range(..=(hands.now, u64::MAX));
        let wakers: Vec<Waker> = due.map(|(_, waker)| waker.clone()).collect();
        drop(hands);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until all due sleepers were polled and their tasks had some turns.
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
}

/// Waits until the background thread has run everything that was queued.
async fn turn() {
    let (done, seen) = oneshot::channel();
    background::spawn(async move { drop(done) }).detach();
    // The task drops the sender. Without a thread, it was dropped before.
    let _: Result<(), _> = seen.await;
}

impl Clock for Standing {
    fn now(&self) -> Instant {
        Instant::from_start(self.elapsed())
    }

    fn wall_micros(&self) -> u64 {
        wall_micros(self.elapsed())
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let mut hands = self.hands();
        hands.next += 1;
        let at = at.since(Instant::default());
        let sleeper = Sleeper { clock: self.clone(), key: (at, hands.next) };
        drop(hands);
        Box::pin(sleeper)
    }
}

/// A future that waits for its deadline.
struct Sleeper {
    clock: Standing,
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
