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

    /// The first deadline after `at`.
    fn after(&self, at: Instant) -> Option<Instant> {
        let mut later = self.by_deadline.range((at, u64::MAX)..);
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
    let mut at = clock.now();
    let end = at + time;
    let mut checks = 0;
    loop {
        // Also wakes the sleepers whose deadline passed during the step before. The clock may move without a step.
        clock.move_to(at);
        settle(clock, &mut checks).await;
        // The next deadline after the last step, not after the current time.
        match clock.with_sleepers(|sleepers| sleepers.after(at)) {
            Some(next) if next < end => at = next,
            _ if at < end => at = end,
            _ => return,
        }
    }
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

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use futures_util::poll;

    use super::*;
    use crate::clock::OffsetClock;

    #[tokio::test]
    async fn a_deadline_that_passes_during_a_step_is_a_step_too() {
        let clock = OffsetClock::default();
        let start = clock.now();
        // A task that is blocked uses up the checks, so that the next steps wait for no timer of the system.
        let mut blocked = clock.sleep_until(start + Duration::from_secs(1));
        assert!(poll!(&mut blocked).is_pending());
        let woken = |at: Duration| {
            let clock = clock.clone();
            background::handle().unwrap().spawn(async move {
                clock.sleep_until(start + at).await;
                clock.now()
            })
        };
        // A step takes longer than a microsecond, so most of these deadlines pass during the step before.
        let first = Duration::from_secs(20);
        let woken = join_all((0..500).map(|micros| woken(first + Duration::from_micros(micros))));
        clock.step(Duration::from_mins(1)).await;
        let latest = woken.await.into_iter().map(Result::unwrap).max().unwrap();
        assert!(latest.since(start) < Duration::from_secs(40), "{:?}", latest.since(start));
    }
}
