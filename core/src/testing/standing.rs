//! A clock that stands still until a test moves it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::wall::wall_micros;
use crate::background;
use crate::clock::{Clock, Instant, Sleep};

/// So many turns of the background thread what was woken has to do what it was woken for: each may wake another.
const TURNS: u32 = 8;
/// So long, by the machine's clock, is waited between two looks at whether everybody who is due has come.
const MOMENT: Duration = Duration::from_millis(2);
/// So often is looked; then time goes on all the same.
const MOMENTS: u32 = 500;

/// It stands until a test moves it; its copies are one clock.
#[derive(Clone, Default)]
pub(super) struct Standing(Arc<Mutex<Hands>>);

/// Where it stands, and who waits for what.
#[derive(Default)]
struct Hands {
    now: Duration,
    /// Sleepers by their ends; those that are due and still here were woken and have not looked yet.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// So that two that end together are two.
    next: u64,
}

impl Standing {
    /// So much time has passed since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.hands().now
    }

    /// From one deadline to the next, each of which has a moment to do what it does.
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

    /// Time passes at once.
    pub(super) fn jump(&self, time: Duration) {
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
}

/// Ends once the background thread has done all that was waiting for it.
async fn turn() {
    let (done, seen) = oneshot::channel();
    background::spawn(async move { drop(done) }).detach();
    // It is dropped, or there is no thread.
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

/// Somebody who sleeps by the clock.
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
