//! Spawns and cancels the futures of this thread's calls.

use std::future::Future;

use futures_util::FutureExt;
use redlock::ffi::{self, Acquire};

use super::outcomes::forward_warnings;
use super::thread_state::ThreadState;
use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::pending::{Call, Pending};

impl ThreadState {
    /// Starts a call that keeps the process alive until it is settled or cancelled.
    pub(crate) fn start<F>(&self, slot: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.enqueue_cancellable(slot, future, None);
        self.wake();
    }

    /// Enqueues an acquire, or repeats one. `wake` sends it.
    pub(crate) fn enqueue_acquire(&self, slot: u32, acquire: Acquire) {
        self.enqueue_cancellable(slot, acquire.acquire().map(Outcome::Acquired), Some(acquire));
    }

    /// Enqueues a call that cannot be cancelled. `wake` sends it.
    pub(crate) fn enqueue<F>(&self, slot: u32, future: F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let number = self.next_number();
        let ended = move |outcome| Ended { slot, number, outcome };
        self.host().driver.enqueue(future.map(ended), ended(Outcome::Broken));
        self.expect(slot, Call { number, job: None, acquire: None });
    }

    fn enqueue_cancellable<F>(&self, slot: u32, future: F, acquire: Option<Acquire>)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let number = self.next_number();
        let ended = move |outcome| Ended { slot, number, outcome };
        let job = self.host().driver.enqueue_job(future.map(ended), ended(Outcome::Broken));
        self.expect(slot, Call { number, job: Some(job), acquire });
    }

    fn expect(&self, slot: u32, call: Call) {
        self.change(|pending| pending.insert(slot, call));
    }

    /// Sends the enqueued calls.
    pub(crate) fn wake(&self) {
        let done = self.host().start_enqueued();
        if !done.is_empty() {
            // JavaScript is in the middle of a native call, so outcomes cannot be delivered now.
            self.event_loop.push(done);
        }
    }

    /// Returns a guard. While it exists, new requests are left to this thread's event loop, and `wake` sends them.
    pub(crate) fn defer_sending(&self) -> Option<impl Sized + use<>> {
        self.host().is_on_event_loop().then(ffi::about_to_ask)
    }

    /// Waits for the loss of a lease, for as long as it is held, without keeping the process alive.
    pub(crate) fn watch<F>(&self, lease: Number, lost: F)
    where
        F: Future<Output = redlock::Error> + Send + 'static,
    {
        let ended = |outcome| Ended { slot: 0, number: 0, outcome };
        let lost = lost.map(move |error| ended(Outcome::Lost(lease, error)));
        let job = self.host().driver.enqueue_job(lost, ended(Outcome::Done));
        self.held.watch(lease, job);
        self.wake();
    }

    /// Cancels the call in this slot. False if there was none.
    pub(crate) fn cancel(&self, slot: u32) -> bool {
        let cancelled = self.change(|pending| pending.cancel(slot));
        if cancelled && self.host().is_on_event_loop() {
            // Release a granted lease now, because the process may end before the loop's next turn.
            self.wake();
        }
        cancelled
    }

    /// Cancels all calls that can be cancelled, and releases the leases that JavaScript has not received.
    pub(crate) fn cancel_all(&self) {
        let cancelled = self.change(Pending::take_cancellable);
        forward_warnings(self.event_loop.take_all());
        if !cancelled.is_empty() {
            drop(cancelled);
            self.wake();
        }
    }
}
