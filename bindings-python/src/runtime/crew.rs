//! Futures of one event loop on the background thread, as one task: handing over a hundred of them wakes that thread once.
//!
//! A task for each would cost a system call for each, on the event loop's thread.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;
use redlock::ffi::Task;

use super::lock;

type Work = Abortable<BoxFuture<'static, ()>>;

#[derive(Default)]
struct Inbox {
    new: Mutex<Vec<Work>>,
    waker: AtomicWaker,
}

/// Where an event loop's thread hands over futures. Dropping it ends them all.
pub(crate) struct Crew {
    inbox: Arc<Inbox>,
    task: Task,
}

/// A future that was handed over; dropping this ends it.
pub(crate) struct Job(AbortHandle);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Crew {
    /// `after` is called when all that could go on has gone on.
    pub(crate) fn start(after: impl Fn() + Send + 'static) -> Self {
        let inbox = Arc::<Inbox>::default();
        let (work, after) = (FuturesUnordered::new(), Box::new(after));
        let crew = Run { inbox: Arc::clone(&inbox), work, after };
        Self { inbox, task: redlock::ffi::spawn(crew) }
    }

    pub(crate) fn run(&self, future: impl Future<Output = ()> + Send + 'static) -> Job {
        let (handle, registration) = AbortHandle::new_pair();
        // A panic must not take the others along.
        let future = AssertUnwindSafe(future).catch_unwind().map(drop);
        lock(&self.inbox.new).push(Abortable::new(Box::pin(future), registration));
        self.inbox.waker.wake();
        self.task.nudge();
        Job(handle)
    }
}

struct Run {
    inbox: Arc<Inbox>,
    work: FuturesUnordered<Work>,
    after: Box<dyn Fn() + Send>,
}

impl Future for Run {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.inbox.waker.register(context.waker());
        let new = std::mem::take(&mut *lock(&self.inbox.new));
        self.work.extend(new);
        while let Poll::Ready(Some(_)) = self.work.poll_next_unpin(context) {}
        (self.after)();
        Poll::Pending
    }
}
