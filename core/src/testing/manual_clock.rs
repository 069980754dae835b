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
    /// How much time has passed since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.state().now
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

    /// Advances the clock at once.
    pub(super) fn jump(&self, time: Duration) {
        let at = self.elapsed().saturating_add(time);
        self.set_time(at);
    }

    fn state(&self) -> MutexGuard<'_, ManualState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next deadline that is not later than `end`.
    fn due_by(&self, end: Duration) -> Option<Duration> {
        let state = self.state();
        let mut ends = state.sleepers.keys().map(|(at, _)| *at);
        ends.find(|at| *at > state.now).filter(|at| *at <= end)
    }

    fn set_time(&self, at: Duration) {
        let mut state = self.state();
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
        let state = self.state();
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
        let mut state = self.state();
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
        let mut state = self.clock.state();
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
        self.clock.state().sleepers.remove(&self.key);
    }
}
