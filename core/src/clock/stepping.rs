//! Moves a clock from one deadline to the next, for tests of programs.
//!
//! Tasks that sleep until a deadline run before the clock moves on, so a renewal on the way extends its lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Clock, Instant};
use crate::runtime::background;

/// How many turns of the background thread woken tasks get to do their work, because each may wake another.
const TURNS_PER_CHECK: u32 = 8;
/// How long to wait, by the system clock, between two checks whether all due sleepers have run.
const SETTLE_INTERVAL: Duration = Duration::from_millis(2);
/// The maximum number of checks that find a due sleeper, in one advance. The clock then moves anyway.
const MAX_CHECKS: u32 = 500;

/// The futures that wait for a time of a clock.
#[derive(Default)]
pub(crate) struct Sleepers {
    /// By deadline. One that is due and still listed was woken but not polled yet.
    by_deadline: BTreeMap<(Instant, u64), Waker>,
    /// Makes the keys of sleepers with the same deadline unique.
    next: u64,
}

impl Sleepers {
    /// Returns the key of another sleeper.
    pub(crate) fn key(&mut self, at: Instant) -> (Instant, u64) {
        self.next += 1;
        (at, self.next)
    }

    /// Wakes this sleeper from now on.
    pub(crate) fn insert(&mut self, key: (Instant, u64), waker: &Waker) {
        self.by_deadline.insert(key, waker.clone());
    }

    pub(crate) fn remove(&mut self, key: (Instant, u64)) {
        self.by_deadline.remove(&key);
    }

    /// The wakers of those that are due. Wake them without a lock.
    pub(crate) fn due(&self, now: Instant) -> Vec<Waker> {
        let due = self.by_deadline.range(..=(now, u64::MAX));
        due.map(|(_, waker)| waker.clone()).collect()
    }

    /// The next deadline after `now`.
    fn after(&self, now: Instant) -> Option<Instant> {
        let mut later = self.by_deadline.range((now, u64::MAX)..);
        later.next().map(|((at, _), _)| *at)
    }

    fn has_due(&self, now: Instant) -> bool {
        self.by_deadline.first_key_value().is_some_and(|((at, _), _)| *at <= now)
    }
}

/// A clock that a test moves.
pub(crate) trait Stepped: Clock {
    /// Moves the clock to this time at least, and wakes the sleepers that are due.
    fn move_to(&self, at: Instant);

    fn with_sleepers<T>(&self, read: impl FnOnce(&Sleepers) -> T) -> T;
}

/// Moves the clock by `time`, from one deadline to the next, and lets the woken tasks run after each.
pub(crate) async fn advance(clock: &impl Stepped, time: Duration) {
    let end = clock.now() + time;
    let mut checks = 0;
    settle(clock, &mut checks).await;
    while let Some(at) = next_deadline(clock).filter(|at| *at <= end) {
        clock.move_to(at);
        settle(clock, &mut checks).await;
    }
    clock.move_to(end);
    settle(clock, &mut checks).await;
}

/// The same on the background thread, so that no turn of a caller's event loop is needed for a step.
pub(crate) async fn advance_in_background(clock: impl Stepped, time: Duration) {
    on_background(async move { advance(&clock, time).await }).await;
}

/// Runs a future on the background thread to its end.
async fn on_background(work: impl Future<Output = ()> + Send + 'static) {
    let (done, seen) = oneshot::channel::<()>();
    let task = background::spawn(async move {
        work.await;
        drop(done);
    });
    // The task drops the sender. Without a thread, it was dropped before.
    let _ = seen.await;
    drop(task);
}

fn next_deadline(clock: &impl Stepped) -> Option<Instant> {
    let now = clock.now();
    clock.with_sleepers(|sleepers| sleepers.after(now))
}

/// Waits until all due sleepers were polled and their tasks had some turns. A thread that is blocked polls none.
async fn settle(clock: &impl Stepped, checks: &mut u32) {
    loop {
        for _ in 0..TURNS_PER_CHECK {
            turn().await;
        }
        let now = clock.now();
        if *checks >= MAX_CHECKS || !clock.with_sleepers(|sleepers| sleepers.has_due(now)) {
            return;
        }
        *checks += 1;
        background::sleep(SETTLE_INTERVAL).await;
    }
}

/// Waits until the background thread has run everything that was queued.
async fn turn() {
    on_background(async {}).await;
}
