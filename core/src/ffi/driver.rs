//! Futures of one event loop on the background thread, as one task: handing over a hundred of them wakes that
//! thread once, and what is done by then comes back as one batch.
//!
//! A task for each would cost a system call for each, on the event loop's own thread.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;

use crate::background::{Task, spawn};
use crate::per_process::fork_generation;

/// A future that was handed over.
///
/// In one box, made at once: an acquire's future is large, and would be moved once for each thing that wraps it.
struct Caught<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    /// The outcome if it panics.
    broken: Option<T>,
}

impl<T: Unpin> Future for Caught<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let future = self.future.as_mut();
        // It is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(outcome) => outcome.map(Some),
            Err(_) => Poll::Ready(self.broken.take()),
        }
    }
}

/// What the driver runs; `None` of a future that was ended.
enum Work<T> {
    Plain(Caught<T>),
    Job(Abortable<Caught<T>>),
}

impl<T: Unpin> Future for Work<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut *self {
            Self::Plain(work) => Pin::new(work).poll(context),
            Self::Job(work) => Poll::Ready(ready!(Pin::new(work).poll(context)).ok().flatten()),
        }
    }
}

/// New futures on their way to the background thread.
struct Inbox<T> {
    /// Held for a push, or to take them all.
    new: Mutex<Vec<Work<T>>>,
    /// Wakes the driver's task.
    driver: AtomicWaker,
}

/// Where one event loop's thread hands over futures. Dropping it ends them all.
pub struct Driver<T> {
    inbox: Arc<Inbox<T>>,
    /// Its end is that of every future in it.
    task: Task,
}

/// A future that was handed over. Dropping it ends the future, unless that is done: then its outcome comes all the
/// same.
#[must_use = "a future whose job is dropped is ended"]
pub struct Job {
    handle: AbortHandle,
    /// Of the process whose thread runs it: in a forked child nobody does, and to wake that thread could block for ever.
    generation: u32,
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.generation == fork_generation() {
            self.handle.abort();
        }
    }
}

impl<T: Send + Unpin + 'static> Driver<T> {
    /// `done` is given the outcomes, a batch whenever all that could go on has gone on; it runs on the background
    /// thread and must not block.
    pub fn start(done: impl FnMut(Vec<T>) + Send + 'static) -> Self {
        let inbox = Arc::new(Inbox { new: Mutex::default(), driver: AtomicWaker::new() });
        let (work, done) = (FuturesUnordered::new(), Box::new(done));
        let task = spawn(Drive { inbox: Arc::clone(&inbox), work, done });
        Self { inbox, task }
    }

    /// Hands over a future, which begins at the next [`Driver::wake`]; `broken` is its outcome if it panics, which
    /// takes none of the others along.
    pub fn enqueue(&self, future: impl Future<Output = T> + Send + 'static, broken: T) {
        self.push(Work::Plain(Caught { future: Box::pin(future), broken: Some(broken) }));
    }

    /// [`Driver::enqueue`] of a future that can be ended.
    ///
    /// For what a caller may cancel: an acquire that is ended this way deletes what it was granted.
    pub fn enqueue_job(&self, future: impl Future<Output = T> + Send + 'static, broken: T) -> Job {
        let (handle, registration) = AbortHandle::new_pair();
        let work = Caught { future: Box::pin(future), broken: Some(broken) };
        self.push(Work::Job(Abortable::new(work, registration)));
        Job { handle, generation: fork_generation() }
    }

    /// Has everything that was handed over begin.
    pub fn wake(&self) {
        // Where the system had no thread for the driver, it goes on here.
        self.task.nudge();
        self.inbox.driver.wake();
    }

    /// Leaves it for the driver's task, which is not woken by this.
    fn push(&self, work: Work<T>) {
        self.inbox.new.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}

/// The driver's own task.
struct Drive<T> {
    inbox: Arc<Inbox<T>>,
    /// Each is polled only when it was woken itself, however many there are.
    work: FuturesUnordered<Work<T>>,
    /// Takes the outcomes of one turn to their loop.
    done: Box<dyn FnMut(Vec<T>) + Send>,
}

impl<T: Unpin> Future for Drive<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let drive = &mut *self;
        // Before looking: what is handed over in between wakes once more, rather than not at all.
        drive.inbox.driver.register(context.waker());
        let new =
            std::mem::take(&mut *drive.inbox.new.lock().unwrap_or_else(PoisonError::into_inner));
        drive.work.extend(new);
        let mut outcomes = Vec::new();
        while let Poll::Ready(Some(outcome)) = drive.work.poll_next_unpin(context) {
            outcomes.extend(outcome);
        }
        if !outcomes.is_empty() {
            // Once for all that was done in this turn: the loop is woken once.
            (drive.done)(outcomes);
        }
        // Never over by itself: it ends with its `Driver`.
        Poll::Pending
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
        // It looks once as it begins, before whatever was spawned later has its turn: from here on only when it is woken.
        let (begun, begins) = channel();
        spawn(async move { begun.send(()).unwrap() }).detach();
        begins.recv_timeout(Duration::from_secs(10)).expect("its turn");
        (driver, batches)
    }

    fn next(batches: &Receiver<Vec<u32>>) -> Vec<u32> {
        batches.recv_timeout(Duration::from_secs(10)).expect("a batch")
    }

    #[test]
    fn what_is_done_together_comes_as_one_batch() {
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
    fn one_that_panics_takes_no_other_along() {
        let (driver, batches) = driver();
        driver.enqueue(async { panic!("on purpose") }, 1);
        driver.enqueue(ready(2), 3);
        driver.wake();
        let mut batch = next(&batches);
        batch.sort_unstable();
        assert_eq!(batch, [1, 2]);
    }

    #[test]
    fn a_dropped_job_and_a_dropped_driver_end_their_futures() {
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
        // The channel's other end goes with the driver's task, and everything in it before.
        assert!(batches.recv_timeout(Duration::from_secs(10)).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
