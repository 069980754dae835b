//! Runs the futures of one event loop, for example those of asyncio acquires, and returns their results in batches,
//! which a queue passes on with one wake-up for many.
//!
//! They run on the loop's thread if it can watch their connections ([`LoopDriver`]), otherwise in one task on the
//! background thread. Handing over many futures wakes that thread once, and finished ones return as one batch. One task
//! for each future would cost a system call each on the event loop's thread.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;
use tokio::task::coop::unconstrained;

use crate::drivers::LoopDriver;
use crate::runtime::background::{Task, spawn};
use crate::runtime::{Made, lock};

/// Accepts futures from the thread of one event loop. Dropping it aborts them all.
pub struct Driver<T> {
    inbox: Arc<Inbox<T>>,
    /// Runs the futures. Dropping it drops every future.
    host: Host<T>,
}

enum Host<T> {
    Background(Task),
    Loop(LoopDriver<T>),
}

/// A future that was handed over.
///
/// Dropping it aborts the future. If the future has completed already, its result is still delivered.
#[must_use = "a future whose job is dropped is ended"]
///
/// In a forked child it does nothing: the thread of the future is not there, and waking it could block forever.
pub struct Job(Made<AbortHandle>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.ours().into_iter().for_each(AbortHandle::abort);
    }
}

impl<T: Send + 'static> Driver<T> {
    /// A driver on the background thread.
    ///
    /// `done` receives the results, one batch after each turn. It runs on the background thread and must not block.
    pub fn start(mut done: impl FnMut(Vec<T>) + Send + 'static) -> Self {
        let (inbox, mut work) = Running::new();
        let drive = poll_fn(move |context| {
            let mut outcomes = Vec::new();
            work.poll(context, &mut outcomes);
            if !outcomes.is_empty() {
                // Called once per turn, so that the loop is woken once.
                done(outcomes);
            }
            // Never completes. It ends with its `Driver`.
            Poll::Pending
        });
        // Without tokio's cooperative budget. With it, only some futures would run in each turn, and the others would
        // be woken for nothing.
        Self { inbox, host: Host::Background(spawn(unconstrained(drive))) }
    }

    /// A driver on this thread. Returns `None` if the system does not support it or no descriptor is left.
    ///
    /// The event loop must watch [`Driver::descriptor`], and call [`Driver::read_available`] when it is readable.
    pub fn on_loop() -> Option<Self> {
        let (inbox, mut work) = Running::new();
        let poll = Box::new(move |cx: &mut Context<'_>, done: &mut Vec<T>| work.poll(cx, done));
        let host = Host::Loop(LoopDriver::new(poll).ok()?);
        Some(Self { inbox, host })
    }

    fn on_thread(&self) -> Option<&LoopDriver<T>> {
        match &self.host {
            Host::Loop(here) => Some(here),
            Host::Background(_) => None,
        }
    }

    /// The descriptor that the loop must watch, if the driver runs on its thread.
    pub fn descriptor(&self) -> Option<i32> {
        self.on_thread().map(LoopDriver::descriptor)
    }

    /// Adds a descriptor that the loop also watches. Returns false if it cannot.
    pub fn watch(&self, descriptor: i32) -> bool {
        self.on_thread().is_some_and(|here| here.add(descriptor).is_ok())
    }

    /// Reads what is available, on the loop's thread. Returns the results so far, and whether the loop's own descriptor
    /// is readable.
    pub fn read_available(&self) -> (Vec<T>, bool) {
        self.on_thread().map_or((Vec::new(), true), LoopDriver::read_available)
    }

    /// Writes the commands that were held back until the end of the loop's turn.
    pub fn flush(&self) {
        self.on_thread().into_iter().for_each(LoopDriver::flush);
    }

    /// Hands over a future. It starts at the next [`Driver::wake`].
    ///
    /// If the future panics, its result is `broken`, and the other futures are not affected.
    pub fn enqueue(&self, future: impl Future<Output = T> + Send + 'static, broken: T) {
        drop(self.push(future, broken));
    }

    /// [`Driver::enqueue`] for a future that the caller may abort.
    ///
    /// Aborting an acquire deletes the keys that it was granted.
    pub fn enqueue_job(&self, future: impl Future<Output = T> + Send + 'static, broken: T) -> Job {
        Job(Made::new(self.push(future, broken)))
    }

    /// Starts the futures that were handed over. Returns the results of those that completed immediately, and whether
    /// all commands are written. If not, call [`Driver::flush`] at the end of the loop's turn.
    pub fn wake(&self) -> (Vec<T>, bool) {
        match &self.host {
            Host::Background(task) => {
                // If the system had no thread for the driver, it continues here.
                task.nudge();
                self.inbox.driver.wake();
                (Vec::new(), true)
            }
            Host::Loop(here) => here.start_futures(),
        }
    }

    /// Adds a future for the driver's task without waking it.
    fn push(&self, future: impl Future<Output = T> + Send + 'static, broken: T) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        let caught = AssertUnwindSafe(future).catch_unwind();
        let caught = Box::pin(caught.map(|outcome| outcome.unwrap_or(broken)));
        lock(&self.inbox.new).push(Abortable::new(caught, registration));
        handle
    }
}

/// A future that the driver runs. It is boxed once at the start, because an acquire's future is large and would be
/// moved by each wrapper.
type Work<T> = Abortable<Pin<Box<dyn Future<Output = T> + Send>>>;

/// New futures on their way to the driver.
struct Inbox<T> {
    /// Locked only to push one future, or to take all of them.
    new: Mutex<Vec<Work<T>>>,
    driver: AtomicWaker,
}

struct Running<T> {
    inbox: Arc<Inbox<T>>,
    /// Polls only the futures that were woken, so the cost does not depend on their number.
    work: FuturesUnordered<Work<T>>,
}

impl<T> Running<T> {
    /// Creates the futures of a driver, and the inbox for new ones.
    fn new() -> (Arc<Inbox<T>>, Self) {
        let inbox = Arc::new(Inbox { new: Mutex::default(), driver: AtomicWaker::new() });
        (Arc::clone(&inbox), Self { inbox, work: FuturesUnordered::new() })
    }

    /// Polls the futures that were woken, and adds their results to `done`.
    fn poll(&mut self, context: &mut Context<'_>, done: &mut Vec<T>) {
        // Registered before the inbox is read: a future that is handed over in between causes an extra wake-up, but is
        // never missed.
        self.inbox.driver.register(context.waker());
        let new = std::mem::take(&mut *lock(&self.inbox.new));
        self.work.extend(new);
        while let Poll::Ready(Some(outcome)) = self.work.poll_next_unpin(context) {
            done.extend(outcome);
        }
    }
}

/// A queue that any thread may push to, for an event loop that must be woken.
///
/// The background thread never waits for the loop. The loop takes as many as it wants at once. One wake-up for each
/// completion would cost more than the completion: a system call, and a turn of the loop.
pub struct Completions<T> {
    /// In order of completion. Locked only for a push or a take, never while the loop is woken.
    items: Mutex<VecDeque<T>>,
    /// Whether a wake-up is under way that has not read the queue yet.
    waking: AtomicBool,
}

impl<T> Completions<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { items: Mutex::new(VecDeque::new()), waking: AtomicBool::new(false) }
    }

    /// Adds items. After a batch, the caller must call [`Completions::must_wake`].
    pub fn push(&self, items: impl IntoIterator<Item = T>) {
        lock(&self.items).extend(items);
    }

    /// Whether the caller must wake the loop: the queue has items, and no wake-up is under way.
    ///
    /// Returns true for only one of several concurrent callers, until the loop takes items.
    pub fn must_wake(&self) -> bool {
        !lock(&self.items).is_empty() && !self.waking.swap(true, Ordering::SeqCst)
    }

    /// Takes the oldest items, `most` at most. Returns whether more are left. The caller must then call
    /// [`Completions::must_wake`].
    pub fn take(&self, most: usize) -> (VecDeque<T>, bool) {
        // Reset before the queue is read: an item that is pushed in between causes an extra wake-up, but is never
        // missed.
        self.waking.store(false, Ordering::SeqCst);
        let mut items = lock(&self.items);
        // A loop that takes a large number at once could do nothing else for long.
        let rest = if items.len() > most { items.split_off(most) } else { VecDeque::new() };
        let more = !rest.is_empty();
        (std::mem::replace(&mut *items, rest), more)
    }
}

impl<T> Default for Completions<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    fn driver() -> (Driver<u32>, Receiver<Vec<u32>>) {
        let (sender, batches) = channel();
        let driver = Driver::start(move |batch| drop(sender.send(batch)));
        // The task is polled once when it starts, before the task that is spawned here. Afterwards it only runs when it
        // is woken.
        let (begun, begins) = channel();
        spawn(async move { begun.send(()).unwrap() }).detach();
        begins.recv_timeout(Duration::from_secs(10)).expect("its turn");
        (driver, batches)
    }

    fn next(batches: &Receiver<Vec<u32>>) -> Vec<u32> {
        batches.recv_timeout(Duration::from_secs(10)).expect("a batch")
    }

    #[test]
    fn concurrent_completions_form_one_batch() {
        let (driver, batches) = driver();
        for number in 0..100 {
            driver.enqueue(ready(number), 1000);
        }
        assert!(batches.try_recv().is_err(), "begun before it was woken");
        driver.wake();
        let mut batch = next(&batches);
        batch.sort_unstable();
        assert_eq!(batch, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn panicking_job_does_not_affect_others() {
        let (driver, batches) = driver();
        driver.enqueue(async { panic!("on purpose") }, 1);
        driver.enqueue(ready(2), 3);
        driver.wake();
        let mut batch = next(&batches);
        batch.sort_unstable();
        assert_eq!(batch, [1, 2]);
    }

    #[test]
    fn dropping_a_job_or_driver_drops_its_futures() {
        let (driver, batches) = driver();
        let alive = Arc::new(());
        let held = |alive: &Arc<()>| {
            let alive = Arc::clone(alive);
            async move {
                pending::<()>().await;
                drop(alive);
                0
            }
        };
        let job = driver.enqueue_job(held(&alive), 1);
        driver.enqueue(held(&alive), 1);
        driver.wake();
        drop(job);
        driver.enqueue(ready(7), 8);
        driver.wake();
        assert_eq!(next(&batches), [7], "an ended future has no outcome");
        drop(driver);
        // The sender is dropped with the driver's task, after everything in it.
        assert!(batches.recv_timeout(Duration::from_secs(10)).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
    #[test]
    fn wakes_the_loop_once_for_many() {
        let queue = Completions::new();
        assert!(!queue.must_wake(), "for nothing");
        queue.push([1, 2, 3]);
        assert!(queue.must_wake());
        queue.push([4]);
        assert!(!queue.must_wake(), "twice for one look");
        assert_eq!(queue.take(3), ([1, 2, 3].into(), true));
        assert!(queue.must_wake(), "for what was left");
        assert_eq!(queue.take(usize::MAX), ([4].into(), false));
        assert!(!queue.must_wake());
    }

    #[test]
    fn concurrent_pushes_leave_nothing_behind() {
        const EACH: u32 = 20_000;
        let (queue, (wake, woken)) = (Completions::new(), channel());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let wake = wake.clone();
                scope.spawn(|| {
                    let wake = wake;
                    for number in 0..EACH {
                        queue.push([number]);
                        if queue.must_wake() {
                            wake.send(()).unwrap();
                        }
                    }
                });
            }
            let mut seen = 0;
            while seen < 4 * EACH as usize {
                woken.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
                seen += queue.take(usize::MAX).0.len();
            }
        });
    }
}
