//! The calls of one JavaScript thread, driven by one task on the background thread.
//!
//! A task per call would cost a wake-up each, which is most of an uncontended acquire's price. Here calls that JavaScript
//! makes while it works through a batch of outcomes go out together, and what is done by then comes back as one batch.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;
use redlock::ffi::Task;

use crate::inbox::Inbox;
use crate::outcome::Outcome;

/// A call that came to its end.
pub(crate) struct Ended {
    pub(crate) slot: u32,
    pub(crate) number: u32,
    pub(crate) outcome: Outcome,
}

type Call = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// New calls on their way to the background thread.
#[derive(Default)]
struct Outbox {
    calls: Mutex<Vec<Call>>,
    driver: AtomicWaker,
}

impl Outbox {
    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where calls are started; dropping it ends all of them.
pub(crate) struct Calls {
    outbox: Arc<Outbox>,
    driver: Task,
}

impl Calls {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        let outbox = Arc::<Outbox>::default();
        let driver = redlock::ffi::spawn(drive(outbox.clone(), inbox));
        Self { outbox, driver }
    }

    /// The outcome goes into the inbox; a panic is an outcome too. Sent by `wake`.
    pub(crate) fn enqueue<F>(&self, slot: u32, number: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        // No async block: it would hold the future twice, and each copy is moved and allocated with every call.
        let call = AssertUnwindSafe(future).catch_unwind().map(move |outcome| {
            let outcome = outcome.unwrap_or(Outcome::Broken);
            Ended { slot, number, outcome }
        });
        let call = Box::pin(call);
        self.outbox.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    pub(crate) fn wake(&self) {
        self.driver.nudge();
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
            outcomes.push(ended);
        }
        inbox.push(outcomes);
        Poll::<()>::Pending
    };
    poll_fn(|context| step(context)).await;
}
