//! Waiting on the caller's thread, which does the background thread's work meanwhile.
//!
//! Where it cannot, it parks, and the work is done elsewhere: in the middle of somebody else's runtime, and on a thread
//! with a small stack.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::process::{WORKING, process};

thread_local! {
    /// Whether its stack has room for the work; `None`: not known yet.
    static ROOMY: Cell<Option<bool>> = const { Cell::new(None) };
}

/// The least stack: a handshake by TLS needs about a fifth of it.
pub(super) const STACK: usize = 256 << 10;

/// Polls a future on this thread, for so long at most; it goes on with what other threads wait for, too.
///
/// Nothing is lost by a [`Poll::Pending`]: the same future may be waited for again, by any thread.
pub fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
    let able = tokio::runtime::Handle::try_current().is_err() && is_roomy();
    let process = if able { process().ok() } else { None };
    let Some(process) = process else { return park(future, time) };
    let (leadership, mut waiting) = (&process.leadership, None);
    let answer = poll_fn(|cx| {
        let answer = future.as_mut().poll(cx);
        // Where nothing is waited for, nothing else is done either, and nobody may take it for that.
        if answer.is_pending() {
            waiting.get_or_insert_with(|| leadership.wait());
        }
        answer
    });
    let _working = Working::begin();
    let waited = process.runtime.block_on(async { tokio::time::timeout(time, answer).await });
    waited.map_or(Poll::Pending, Poll::Ready)
}

/// This thread does the work, until it is dropped.
struct Working;

impl Working {
    fn begin() -> Self {
        WORKING.set(true);
        Self
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        WORKING.set(false);
    }
}

/// Whether this thread's stack has room for the work.
fn is_roomy() -> bool {
    ROOMY.get().unwrap_or_else(|| {
        let roomy = stack().is_none_or(|stack| stack >= STACK);
        ROOMY.set(Some(roomy));
        roomy
    })
}

/// How large this thread's stack is, where the system says so.
#[cfg(target_os = "linux")]
fn stack() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut size = 0;
    // SAFETY: the attributes are written by the first call before they are read and destroyed, once each, and only if
    // it succeeded.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let known = libc::pthread_attr_getstacksize(&raw const attributes, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        known.then_some(size)
    }
}

/// How large this thread's stack is.
#[cfg(target_vendor = "apple")]
fn stack() -> Option<usize> {
    // SAFETY: it only reads what belongs to this thread.
    Some(unsafe { libc::pthread_get_stacksize_np(libc::pthread_self()) })
}

/// Elsewhere nobody is known to make threads with less.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn stack() -> Option<usize> {
    None
}

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

/// Polls as often as it is woken, and leaves the work to others.
pub(super) fn park<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Poll<F::Output> {
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
