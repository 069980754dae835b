//! Waiting on the caller's thread: without the GIL, awake to signals, and with greenlets that run meanwhile.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::{greenlets, guarded};

/// How long a waiting thread may be deaf to Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);
/// How long a greenlet keeps all others waiting: an answer from nearby comes sooner.
const SHORT: Duration = Duration::from_millis(1);

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

impl Parker {
    /// Polls as often as it is woken, for one slice.
    fn poll<F: Future>(
        &self,
        waker: &Waker,
        mut future: Pin<&mut F>,
        slice: Duration,
    ) -> Poll<F::Output> {
        let end = Instant::now() + slice;
        loop {
            while !self.woken.swap(false, Ordering::Acquire) {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Poll::Pending;
                }
                thread::park_timeout(left);
            }
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(value);
            }
        }
    }
}

/// Drives a future on this thread, without the GIL, until it is done or a signal handler raises.
///
/// `when_slow` is called once, if the first slice of time was not enough.
pub(crate) fn wait<F>(
    py: Python<'_>,
    future: F,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    match greenlets::in_use(py)? {
        None => drive(py, pin!(future), when_slow, SLICE, || Ok(())),
        Some(mut greenlets) => {
            drive(py, Box::pin(future).as_mut(), when_slow, SHORT, || greenlets.pause())
        }
    }
}

fn drive<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
    slice: Duration,
    mut pause: impl FnMut() -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&parker));
    let mut when_slow = Some(when_slow);
    loop {
        let polled = guarded(|| Ok(py.detach(|| parker.poll(&waker, future.as_mut(), slice))))?;
        // Also when it is done: what a handler raises now would otherwise be raised after the lease was handed out.
        py.check_signals()?;
        match (polled, when_slow.take()) {
            (Poll::Ready(value), _) => return Ok(value),
            (Poll::Pending, Some(slow)) => slow(py)?,
            (Poll::Pending, None) => {}
        }
        pause()?;
    }
}
