//! The futures of one event loop, wherever they run: each is polled only when it was woken itself.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::future::Abortable;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;

/// A future that was handed over.
///
/// In one box, made at once: an acquire's future is large, and would be moved once for each thing that wraps it.
pub(super) struct Caught<T> {
    pub(super) future: Pin<Box<dyn Future<Output = T> + Send>>,
    /// The outcome if it panics.
    pub(super) broken: Option<T>,
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
pub(super) enum Work<T> {
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
pub(super) struct Inbox<T> {
    /// Held for a push, or to take them all.
    pub(super) new: Mutex<Vec<Work<T>>>,
    /// Wakes the driver's task.
    pub(super) driver: AtomicWaker,
}

/// All futures of one driver.
pub(super) struct Running<T> {
    pub(super) inbox: Arc<Inbox<T>>,
    /// Each is polled only when it was woken itself, however many there are.
    pub(super) work: FuturesUnordered<Work<T>>,
}

impl<T: Unpin> Running<T> {
    pub(super) fn over(inbox: &Arc<Inbox<T>>) -> Self {
        Self { inbox: Arc::clone(inbox), work: FuturesUnordered::new() }
    }

    /// Goes on with all that can, and adds what is done.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, done: &mut Vec<T>) {
        // Before looking: what is handed over in between wakes once more, rather than not at all.
        self.inbox.driver.register(context.waker());
        let new =
            std::mem::take(&mut *self.inbox.new.lock().unwrap_or_else(PoisonError::into_inner));
        self.work.extend(new);
        while let Poll::Ready(Some(outcome)) = self.work.poll_next_unpin(context) {
            done.extend(outcome);
        }
    }
}
