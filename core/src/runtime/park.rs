//! Runs a future to completion on the caller's thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::runtime::{Sleep, Wakeup};

/// Polls a future whenever it is woken, for at most `time`.
///
/// [`Poll::Pending`] before that means that a signal needs its handler to run. The same future may be passed again, on
/// the same thread.
pub fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    if let Some(polled) = crate::foreground::wait(future.as_mut(), time) {
        return polled;
    }
    park(future, time)
}

/// Declares that this thread will wait for its next commands, so it writes them directly.
///
/// Applies until the returned value is dropped.
pub fn about_to_wait() -> impl Sized {
    crate::foreground::Here::begin()
}

/// Like [`about_to_wait`], for a thread whose event loop reads the replies through its [`crate::ffi::Driver`].
pub fn about_to_ask() -> impl Sized {
    crate::foreground::Here::asking()
}

/// Wakes the thread that polls.
struct Parker {
    thread: Thread,
    wakeup: Wakeup,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakeup.ring(|_| self.thread.unpark());
    }
}

/// Parks the thread between polls. The background thread does the I/O.
fn park<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    // `about_to_wait` announced that this thread does its I/O. While it is parked, it cannot.
    let _parked = crate::foreground::Parked::begin();
    let parker = Arc::new(Parker { thread: thread::current(), wakeup: Wakeup::new() });
    let waker = Waker::from(Arc::clone(&parker));
    let end = Instant::now() + time;
    loop {
        if parker.wakeup.look()
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return Poll::Ready(value);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() && !parker.wakeup.is_rung() {
            return Poll::Pending;
        }
        if parker.wakeup.begin_sleep(Sleep::Parked) {
            thread::park_timeout(left);
            parker.wakeup.wake_up();
        }
    }
}
