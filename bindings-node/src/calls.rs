//! The calls of one JavaScript thread, driven by one task on the background thread.
//!
//! A task per call would cost a wake-up each, which is most of an uncontended acquire's price. Here calls made while
//! JavaScript works through a batch of outcomes go out together at its end, and what is done by then comes back as one batch.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;
use redlock::Task;

use crate::outcome::Outcome;
use crate::runtime::Inbox;

/// Nothing if the call was cancelled.
type Call = Pin<Box<dyn Future<Output = Option<(u32, Outcome)>> + Send>>;

/// New calls on their way to the background thread.
#[derive(Default)]
struct Outbox {
    calls: Mutex<VecDeque<Call>>,
    driver: AtomicWaker,
}

impl Outbox {
    fn take(&self) -> VecDeque<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where calls are started; dropping it ends all of them.
pub(crate) struct Calls {
    outbox: Arc<Outbox>,
    /// More calls are to be expected at once: do not wake the background thread yet.
    gathering: Cell<bool>,
    _driver: Task,
}

impl Calls {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        let outbox = Arc::<Outbox>::default();
        let driver = redlock::spawn(drive(outbox.clone(), inbox));
        Self { outbox, gathering: Cell::new(false), _driver: driver }
    }

    /// The outcome goes into the inbox with this number; a panic is an outcome too.
    pub(crate) fn start<F>(&self, id: u32, future: F) -> AbortHandle
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (call, handle) = abortable(AssertUnwindSafe(future).catch_unwind());
        let call = call.map(move |ended| Some((id, ended.ok()?.unwrap_or(Outcome::Broken))));
        let mut calls = self.outbox.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push_back(Box::pin(call));
        drop(calls);
        if !self.gathering.get() {
            self.outbox.driver.wake();
        }
        handle
    }

    /// Sends what was gathered so far; then gathers on, or sends every call at once.
    pub(crate) fn gather(&self, on: bool) {
        self.gathering.set(on);
        // Without anything gathered this is a false alarm, which costs less than to look.
        self.outbox.driver.wake();
    }
}

async fn drive(outbox: Arc<Outbox>, inbox: Arc<Inbox>) {
    let mut calls = FuturesUnordered::new();
    let mut step = |context: &mut Context<'_>| {
        outbox.driver.register(context.waker());
        calls.extend(outbox.take());
        let mut outcomes = Vec::new();
        while let Poll::Ready(Some(ended)) = calls.poll_next_unpin(context) {
            outcomes.extend(ended);
        }
        inbox.push(outcomes);
        Poll::<()>::Pending
    };
    poll_fn(|context| step(context)).await;
}
