//! Waiting on the caller's own thread, until a future is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Polls a future as often as it is woken, for so long at most: by a [`Poll::Pending`] that comes earlier, a signal asks for
/// its handler.
///
/// Nothing is lost by it: the same future may be waited for again, on the same thread.
pub fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    #[cfg(unix)]
    if let Some(polled) = crate::foreground::wait(future.as_mut(), time) {
        return polled;
    }
    park(future, time)
}

/// From here on, until the answer is dropped, this thread writes by itself what it asks: it waits for that next.
#[cfg(unix)]
pub fn about_to_wait() -> impl Sized {
    crate::foreground::Here::begin()
}

/// There is nothing to be done for it.
#[cfg(not(unix))]
pub fn about_to_wait() -> impl Sized {}

/// The same of a thread whose event loop sees to what is asked, by its [`crate::ffi::Driver`].
#[cfg(unix)]
pub fn about_to_ask() -> impl Sized {
    crate::foreground::Here::asking()
}

/// There is nothing to be done for it.
#[cfg(not(unix))]
pub fn about_to_ask() -> impl Sized {}

/// Wakes the thread that polls.
struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Sleeps; the background thread does all that is to be done meanwhile.
fn park<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    // `about_to_wait` promised that this thread does its own work. It cannot.
    let _parked = crate::foreground::Parked::begin();
    let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&parker));
    let end = Instant::now() + time;
    loop {
        while !parker.woken.swap(false, Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Poll::Pending;
            }
            thread::park_timeout(left);
        }
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Poll::Ready(value);
        }
    }
}
