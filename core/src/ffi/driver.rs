//! Futures of one event loop: on its own thread where that can watch their connections ([`super::on_loop`]), else on the
//! background thread, as one task. Handing over a hundred of them wakes that thread once, and what is done by then comes back
//! as one batch; a task for each would cost a system call for each, on the event loop's own thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable};
use futures_util::task::AtomicWaker;
use tokio::task::coop::unconstrained;

use super::on_loop::OnLoop;
use super::running::{Caught, Inbox, Running, Work};
use crate::background::{Task, spawn};
use crate::per_process::fork_generation;

/// Where one event loop's thread hands over futures. Dropping it ends them all.
pub struct Driver<T> {
    inbox: Arc<Inbox<T>>,
    /// Its end is that of every future in it.
    host: Host<T>,
}

/// Who runs them.
enum Host<T> {
    /// The background thread.
    Background(Task),
    /// The event loop's own.
    Loop(OnLoop<T>),
}

/// What became of futures that have just begun.
pub struct Begun<T> {
    /// What was done at once.
    pub done: Vec<T>,
    /// Whether all that they ask is written; if not, [`Driver::flush`] is to be called when the loop's turn is over.
    pub written: bool,
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
        let (work, done) = (Running::over(&inbox), Box::new(done));
        // Not counted by tokio, which would have a few go on in each turn, and all others woken for nothing.
        let host = Host::Background(spawn(unconstrained(Drive { work, done })));
        Self { inbox, host }
    }

    /// One whose futures run on this thread, whose loop watches [`Driver::descriptor`] and calls [`Driver::look`] whenever
    /// that has something to read; `None`: the system, or what is left of its descriptors, has no such thing.
    pub fn on_loop() -> Option<Self> {
        let inbox = Arc::new(Inbox { new: Mutex::default(), driver: AtomicWaker::new() });
        let mut work = Running::over(&inbox);
        let drive = Box::new(move |cx: &mut Context<'_>, done: &mut Vec<T>| work.poll(cx, done));
        let host = Host::Loop(OnLoop::new(drive).ok()?);
        Some(Self { inbox, host })
    }

    /// What the loop is to watch, if this runs on its thread.
    pub fn descriptor(&self) -> Option<i32> {
        match &self.host {
            Host::Loop(here) => Some(here.descriptor()),
            Host::Background(_) => None,
        }
    }

    /// Has the loop look when this one has something to read, too; false: it cannot.
    pub fn watch(&self, descriptor: i32) -> bool {
        match &self.host {
            Host::Loop(here) => here.add(descriptor).is_ok(),
            Host::Background(_) => false,
        }
    }

    /// What is done by now, on the loop's thread: it reads what is there. And whether the loop's own descriptor has something
    /// to read.
    pub fn look(&self) -> (Vec<T>, bool) {
        match &self.host {
            Host::Loop(here) => here.look(),
            Host::Background(_) => (Vec::new(), true),
        }
    }

    /// Writes what was left for the end of the loop's turn.
    pub fn flush(&self) {
        if let Host::Loop(here) = &self.host {
            here.flush();
        }
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
    pub fn wake(&self) -> Begun<T> {
        match &self.host {
            Host::Background(task) => {
                // Where the system had no thread for the driver, it goes on here.
                task.nudge();
                self.inbox.driver.wake();
                Begun { done: Vec::new(), written: true }
            }
            Host::Loop(here) => {
                let (done, written) = here.begin();
                Begun { done, written }
            }
        }
    }

    /// Leaves it for the driver's task, which is not woken by this.
    fn push(&self, work: Work<T>) {
        self.inbox.new.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}

/// The driver's own task on the background thread.
struct Drive<T> {
    work: Running<T>,
    /// Takes the outcomes of one turn to their loop.
    done: Box<dyn FnMut(Vec<T>) + Send>,
}

impl<T: Unpin> Future for Drive<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut outcomes = Vec::new();
        self.work.poll(context, &mut outcomes);
        if !outcomes.is_empty() {
            // Once for all that was done in this turn: the loop is woken once.
            (self.done)(outcomes);
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
