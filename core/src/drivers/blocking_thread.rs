//! Runs a future on the thread that waits for it, which writes the commands and reads the replies itself.
//!
//! No other thread must then be woken. While the future is polled, the thread records the connections to which commands
//! are submitted, and its timers. It then sleeps on all of them, and on a descriptor that wakes it.
//!
//! A thread that cannot do so parks, and the background thread writes and reads for it. This applies if the system
//! cannot sleep on several descriptors, if no descriptor is left, or if the stack is almost full.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use super::poller;
use super::reactor::{Driving, Reactor, take_submitted};
use crate::runtime::machine;
use crate::runtime::{WakeHandle, has_stack_space, timers};

/// Declares that this thread will wait for its next commands, so it writes them directly.
///
/// Applies until the returned value is dropped.
pub fn about_to_wait() -> impl Sized {
    Driving::start(true, true)
}

/// Like [`about_to_wait`], for a thread whose event loop reads the replies through its [`crate::ffi::Driver`].
pub fn about_to_ask() -> impl Sized {
    Driving::start(true, false)
}

/// Polls a future whenever it is woken, for at most `time`.
///
/// [`Poll::Pending`] means that the time is over. The same future may be passed again, on the same thread.
pub fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    let handle = has_stack_space().then(WakeHandle::of_thread).flatten();
    // The order matters: the last commands are written while `Driving` exists.
    let _driving = Driving::start(handle.is_some(), true);
    let handle = handle.unwrap_or_else(WakeHandle::without_descriptor);
    let waker = Waker::from(Arc::clone(&handle));
    let mut connections = WaitedConnections::default();
    let mut end = None;
    loop {
        if handle.take_rung() {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(value);
            }
            connections.write();
        }
        // Once for each sleep, because the clock costs a hundredth of a pair.
        let now = machine::now();
        let end = *end.get_or_insert_with(|| now + time);
        let until = timers::next().map_or(end, |next| next.min(end));
        if connections.sleep(&handle, until.since(now)) {
            let now = machine::now();
            timers::wake_due(now);
            if !handle.is_rung() && now >= end {
                return Poll::Pending;
            }
        }
    }
}

/// The connections of a waiting thread.
#[derive(Default)]
struct WaitedConnections {
    reactor: Reactor,
}

impl WaitedConnections {
    /// Writes the commands that were submitted since the last call.
    fn write(&mut self) {
        self.reactor.write(take_submitted());
    }

    /// Sleeps until a connection is readable, which is then read, or until a ring, a signal, or the end of `time`.
    /// Returns false if the time is not over.
    fn sleep(&mut self, handle: &WakeHandle, time: Duration) -> bool {
        let (numbers, mut descriptors): (SmallVec<[u64; 5]>, SmallVec<[i32; 6]>) =
            self.reactor.awaited().unzip();
        if time.is_zero() {
            return true;
        }
        if numbers.is_empty() {
            handle.park(time);
            return true;
        }
        if !handle.begin_sleep() {
            return false;
        }
        descriptors.push(handle.descriptor());
        let ready = poller::wait(&descriptors, time);
        handle.wake_up();
        for at in &ready {
            match numbers.get(*at) {
                None => handle.clear(),
                // If more is available, the descriptor stays readable.
                Some(number) => drop(self.reactor.read_available(*number)),
            }
        }
        ready.is_empty()
    }
}

/// The last commands are always written.
impl Drop for WaitedConnections {
    fn drop(&mut self) {
        self.write();
    }
}
