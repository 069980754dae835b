//! Waiting on the caller's own thread, which sleeps meanwhile: the background thread does the work.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

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

/// Polls a future as often as it is woken, for so long at most.
///
/// Nothing is lost by a [`Poll::Pending`]: the same future may be waited for again, by any thread.
pub fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
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
