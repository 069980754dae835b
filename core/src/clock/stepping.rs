//! Moves a clock from one deadline to the next, for tests of programs.
//!
//! Tasks that sleep until a deadline run before the clock moves on, so a renewal on the way extends its lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};

use super::{Clock, Instant};
use crate::runtime::{Dependent, Owned, background, depend};

/// How many turns of the background thread woken tasks get to do their work, because each may wake another.
const TURNS_PER_CHECK: u32 = 8;
/// How long an advance waits for the next sign of other threads, by the system clock.
const BLOCKED: Duration = Duration::from_secs(1);
/// How often in a row an advance waits that long for the background thread, and for the nodes.
const MAX_LATE: u32 = 3;

/// The futures that wait for a time of a clock.
#[derive(Default)]
pub(crate) struct Sleepers {
    /// By deadline. One that is due and still listed was woken but not polled yet.
    by_deadline: BTreeMap<(Instant, u64), Waker>,
    /// Makes the keys of sleepers with the same deadline unique.
    next: u64,
    /// The time of the last move.
    moved_to: Instant,
    /// Notified when a sleeper ends that was due at that time. An advance could wait endlessly for the others.
    ended: Arc<Notify>,
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

    /// Removes one that has ended. Notify the result, without a lock.
    pub(crate) fn remove(&mut self, key: (Instant, u64)) -> Option<Arc<Notify>> {
        let waker = self.by_deadline.remove(&key)?;
        drop(waker);
        (key.0 <= self.moved_to).then(|| Arc::clone(&self.ended))
    }

    /// The wakers of those that are due after a move. Wake them without a lock.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Waker> {
        self.moved_to = now;
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
///
/// `flushed` completes when the nodes of this clock have run the commands that they have received.
pub(crate) async fn advance<F>(clock: &impl Stepped, time: Duration, flushed: impl Fn() -> F)
where
    F: Future,
{
    Advance::new(clock, flushed).run(time).await;
}

/// The same on the background thread, so that no turn of a caller's event loop is needed for a step.
pub(crate) async fn advance_in_background<F>(
    clock: impl Stepped,
    time: Duration,
    flushed: impl Fn() -> F + Send + Sync + 'static,
) where
    F: Future + Send,
{
    let is_done = on_background(async move { advance(&clock, time, flushed).await }).await;
    assert!(is_done, "the background thread has ended during an advance");
}

/// One advance of a clock.
struct Advance<'a, C, R> {
    clock: &'a C,
    flushed: R,
    /// After how long without a sign of other threads one of them is blocked. The clock moves then.
    blocked_after: Duration,
    /// Whether a caller's thread is blocked, whose sleepers are due in all later steps too.
    is_blocked: bool,
    /// How often in a row the background thread was late.
    late_thread: u32,
    /// How often in a row the nodes were late.
    late_nodes: u32,
}

impl<'a, C, R, F> Advance<'a, C, R>
where
    C: Stepped,
    R: Fn() -> F,
    F: Future,
{
    fn new(clock: &'a C, flushed: R) -> Self {
        let (blocked_after, is_blocked, late_thread, late_nodes) = (BLOCKED, false, 0, 0);
        Self { clock, flushed, blocked_after, is_blocked, late_thread, late_nodes }
    }

    async fn run(&mut self, time: Duration) {
        let mut at = self.clock.now();
        let end = at + time;
        loop {
            // Also wakes the sleepers whose deadline passed during the step before. The clock may move without a step.
            self.clock.move_to(at);
            self.settle(at).await;
            // The next deadline after the last step, not after the current time.
            match self.clock.with_sleepers(|sleepers| sleepers.after(at)) {
                Some(next) if next < end => at = next,
                _ if at < end => at = end,
                _ => return,
            }
        }
    }

    /// Waits until all sleepers that are due at this step were polled, and their tasks had some turns.
    async fn settle(&mut self, at: Instant) {
        loop {
            for _ in 0..TURNS_PER_CHECK {
                let idle = on_background(background::idle());
                self.late_thread = self.wait(self.late_thread, idle).await;
                // A thread that another one has interrupted inside a node may have the command of a renewal.
                self.late_nodes = self.wait(self.late_nodes, (self.flushed)()).await;
            }
            // An advance waits once for a blocked thread.
            if self.is_blocked {
                return;
            }
            if self.clock.with_sleepers(|sleepers| sleepers.has_due(at)) {
                self.is_blocked = !self.all_polled(at).await;
                continue;
            }
            // After the sleepers, which end during polls.
            let Some(polls) = self.clock.polls() else { return };
            let generation = polls.next_generation();
            if polls.are_over(generation) {
                return;
            }
            self.is_blocked = !self.is_in_time(polls.until_over(generation)).await;
        }
    }

    /// Waits until no sleeper is due. Returns false if none was polled for a while.
    async fn all_polled(&self, at: Instant) -> bool {
        let ended = self.clock.with_sleepers(|sleepers| Arc::clone(&sleepers.ended));
        loop {
            // Begins to listen before the check.
            let next = ended.notified();
            if !self.clock.with_sleepers(|sleepers| sleepers.has_due(at)) {
                return true;
            }
            if !self.is_in_time(next).await {
                return false;
            }
        }
    }

    /// Waits for the background thread or the nodes, unless they were late too often. Returns how often they are late.
    async fn wait(&self, late: u32, done: impl Future) -> u32 {
        match late {
            MAX_LATE => MAX_LATE,
            _ if self.is_in_time(done).await => 0,
            _ => late + 1,
        }
    }

    /// Whether the future completes before a thread counts as blocked.
    async fn is_in_time(&self, done: impl Future) -> bool {
        let blocked = background::sleep(self.blocked_after);
        matches!(select(pin!(done), pin!(blocked)).await, Either::Left(_))
    }
}

/// Runs a future on the background thread. Returns false if it panics, or if that thread ends before.
async fn on_background(work: impl Future<Output = ()> + Send + 'static) -> bool {
    if background::usable_handle().is_err() {
        return false;
    }
    // Before the task begins, so that no end of its thread is missed.
    let end = Arc::new(ThreadEnd { thread: Owned::new(()), ended: Notify::new() });
    let dependent: Weak<ThreadEnd> = Arc::downgrade(&end);
    depend(dependent);
    let (done, seen) = oneshot::channel::<()>();
    let task = background::spawn(async move {
        work.await;
        let _ = done.send(());
    });
    let is_done =
        matches!(select(seen, pin!(end.ended.notified())).await, Either::Left((Ok(()), _)));
    drop(task);
    is_done
}

/// The end of a background thread, whose tasks never complete then.
struct ThreadEnd {
    thread: Owned<()>,
    ended: Notify,
}

impl Dependent for ThreadEnd {
    fn thread_ended(&self) {
        // Otherwise an earlier thread has ended.
        if !self.thread.is_ours() {
            self.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::sync::Mutex;
    use std::thread;

    use futures_util::future::join_all;
    use futures_util::poll;
    use tokio::runtime::Builder;
    use tokio::task::{JoinHandle, yield_now};

    use super::*;
    use crate::clock::OffsetClock;
    use crate::runtime::lock;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the time at which a task that sleeps until `at` and then does `work` is done.
    fn done_at<F>(clock: &OffsetClock, at: Instant, work: F) -> JoinHandle<Instant>
    where
        F: Future + Send + 'static,
    {
        let clock = clock.clone();
        background::handle().unwrap().spawn(async move {
            clock.sleep_until(at).await;
            work.await;
            clock.now()
        })
    }

    #[tokio::test]
    async fn a_deadline_that_passes_during_a_step_is_a_step_too() {
        let clock = OffsetClock::default();
        let start = clock.now();
        // The next steps do not wait for it any more.
        let mut blocked = clock.sleep_until(start + SECOND);
        assert!(poll!(&mut blocked).is_pending());
        // A step takes longer than a microsecond, so most of these deadlines pass during the step before.
        let first = start + 20 * SECOND;
        let done = |micros| done_at(&clock, first + Duration::from_micros(micros), ready(()));
        let done = join_all((0..500).map(done));
        advance_in_background(clock.clone(), 60 * SECOND, || ready(())).await;
        let latest = done.await.into_iter().map(Result::unwrap).max().unwrap();
        assert!(latest.since(start) < 40 * SECOND, "{:?}", latest.since(start));
    }

    #[tokio::test]
    async fn a_step_includes_what_gives_way_to_other_tasks() {
        let clock = OffsetClock::default();
        let start = clock.now();
        let done = done_at(&clock, start + SECOND, async {
            for _ in 0..1000 {
                yield_now().await;
            }
        });
        advance_in_background(clock.clone(), 60 * SECOND, || ready(())).await;
        assert!(done.await.unwrap().since(start) < 40 * SECOND);
    }

    #[tokio::test]
    async fn a_step_includes_the_commands_that_a_node_has_received() {
        let clock = OffsetClock::default();
        let start = clock.now();
        let (received, sent) = oneshot::channel::<()>();
        let done = done_at(&clock, start + SECOND, sent);
        let (stepped, received) = (clock.clone(), Arc::new(Mutex::new(Some(received))));
        let flushed = move || {
            let (clock, received) = (stepped.clone(), Arc::clone(&received));
            async move {
                // The command is sent at the first deadline.
                if clock.now() >= start + SECOND {
                    lock(&received).take();
                }
            }
        };
        advance_in_background(clock.clone(), 60 * SECOND, flushed).await;
        assert!(done.await.unwrap().since(start) < 40 * SECOND);
    }

    #[tokio::test]
    async fn a_step_waits_for_a_slow_thread() {
        let clock = OffsetClock::default();
        let (start, slow) = (clock.now(), clock.clone());
        let (listening, begun) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let late = |second: u32| {
                let (at, clock) = (start + second * SECOND, slow.clone());
                let mut sleep = clock.sleep_until(at);
                poll_fn(move |cx| {
                    thread::sleep(Duration::from_millis(3));
                    sleep.as_mut().poll(cx).map(|()| clock.now().since(at))
                })
            };
            let runtime = Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut sleeps = join_all((1..60).map(late));
                assert!(poll!(&mut sleeps).is_pending());
                drop(listening);
                sleeps.await.into_iter().max().unwrap()
            })
        });
        let _ = begun.await;
        let advance = Advance::new(&clock, || ready(()));
        // However long the system keeps the thread from running.
        Advance { blocked_after: 60 * SECOND, ..advance }.run(60 * SECOND).await;
        let late = thread.join().unwrap();
        // The clock may move one step further before the time is read, also after the last of them.
        assert!(late < 5 * SECOND, "{late:?}");
    }

    #[tokio::test]
    async fn an_advance_gives_up_a_node_that_never_answers() {
        let clock = OffsetClock::default();
        let start = clock.now();
        let mut deadlines =
            join_all((1..50).map(|second| clock.sleep_until(start + second * SECOND)));
        assert!(poll!(&mut deadlines).is_pending());
        let waits = Cell::new(0);
        let advance = Advance::new(&clock, || async {
            waits.set(waits.get() + 1);
            pending::<()>().await;
        });
        Advance { blocked_after: Duration::from_millis(1), ..advance }.run(60 * SECOND).await;
        assert_eq!(waits.get(), MAX_LATE);
    }

    #[tokio::test]
    async fn sleepers_that_are_not_due_do_not_make_a_blocked_thread_count_as_running() {
        let clock = OffsetClock::default();
        let mut blocked = clock.sleep_until(clock.now() + SECOND);
        assert!(poll!(&mut blocked).is_pending());
        let others = async {
            loop {
                let mut other = clock.sleep_until(clock.now() + 3600 * SECOND);
                assert!(poll!(&mut other).is_pending());
                drop(other);
                background::sleep(BLOCKED / 5).await;
            }
        };
        let advance = advance_in_background(clock.clone(), 60 * SECOND, || ready(()));
        tokio::select! {
            () = advance => {}
            () = others => {}
            () = background::sleep(20 * BLOCKED) => panic!("the advance does not end"),
        }
    }
}
