//! The futures of one event loop. Each is polled only when it was woken.

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
/// It is boxed once at the start, because an acquire's future is large and would be moved by each wrapper.
pub(super) struct Caught<T> {
    pub(super) future: Pin<Box<dyn Future<Output = T> + Send>>,
    /// The result if the future panics.
    pub(super) broken: Option<T>,
}

impl<T: Unpin> Future for Caught<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let future = self.future.as_mut();
        // The future is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(outcome) => outcome.map(Some),
            Err(_) => Poll::Ready(self.broken.take()),
        }
    }
}

/// A future that the driver runs. Its result is `None` if it was aborted.
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

/// New futures on their way to the driver.
pub(super) struct Inbox<T> {
    /// Locked only to push one future, or to take all of them.
    pub(super) new: Mutex<Vec<Work<T>>>,
    /// Wakes the driver's task.
    pub(super) driver: AtomicWaker,
}

/// All futures of one driver.
pub(super) struct Running<T> {
    pub(super) inbox: Arc<Inbox<T>>,
    /// Polls only the futures that were woken, so the cost does not depend on their number.
    pub(super) work: FuturesUnordered<Work<T>>,
}

impl<T: Unpin> Running<T> {
    pub(super) fn over(inbox: &Arc<Inbox<T>>) -> Self {
        Self { inbox: Arc::clone(inbox), work: FuturesUnordered::new() }
    }

    /// Polls the futures that were woken, and adds their results to `done`.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, done: &mut Vec<T>) {
        // Registered before the inbox is read: a future that is handed over in between causes an extra wake-up, but is
        // never missed.
        self.inbox.driver.register(context.waker());
        let new =
            std::mem::take(&mut *self.inbox.new.lock().unwrap_or_else(PoisonError::into_inner));
        self.work.extend(new);
        while let Poll::Ready(Some(outcome)) = self.work.poll_next_unpin(context) {
            done.extend(outcome);
        }
    }
}
