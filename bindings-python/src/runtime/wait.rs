//! Waits on the caller's thread: without the GIL, with signal checks, and while other greenlets run.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlock::ffi;

use super::greenlets::{self, Greenlets};
use super::guarded;
use crate::once_cell::Once;

/// The interval at which a waiting thread checks for exceptions: a Ctrl-C, or one that another thread raises in it.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long each call of a greenlet may block the others. A reply over a fast network arrives within this time.
const GREENLET_BLOCK: Duration = Duration::from_millis(1);

/// Drives a future on this thread, without the GIL, until it is done, or an exception is raised in this thread.
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
    let future = DroppedQuietly(ManuallyDrop::new(future));
    match greenlets::in_use(py)? {
        None => drive(py, pin!(future), when_slow),
        Some(greenlets) => drive_greenlet(py, Box::pin(future).as_mut(), when_slow, greenlets),
    }
}

/// A future whose drop does not panic. It may wake the background thread, which fails after the program has closed the
/// descriptors.
struct DroppedQuietly<F>(ManuallyDrop<F>);

impl<F: Future> Future for DroppedQuietly<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is never moved out of its field, and is dropped in place.
        unsafe { self.map_unchecked_mut(|this| &mut *this.0) }.poll(cx)
    }
}

impl<F> Drop for DroppedQuietly<F> {
    fn drop(&mut self) {
        // SAFETY: it is dropped once, here.
        let mut dropped = || unsafe { ManuallyDrop::drop(&mut self.0) };
        let _ = guarded(|| {
            dropped();
            Ok(())
        });
    }
}

/// Like [`wait`], for a call that sends its command before it returns the future.
pub(crate) fn send_and_wait<F>(
    py: Python<'_>,
    send: impl FnOnce() -> PyResult<F>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    // Announced first, so that this thread writes the command.
    let waits = ffi::about_to_wait();
    let future = guarded(send)?;
    let has_greenlets = greenlets::in_use(py)?.is_some();
    // Other greenlets of this thread may begin to wait before this one, and end after it. Such announcements must not
    // overlap.
    let _waits = (!has_greenlets).then_some(waits);
    wait(py, future, |_| Ok(()))
}

fn drive<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut when_slow = Some(when_slow);
    loop {
        if let Poll::Ready(value) =
            checked(py, || ffi::wait(future.as_mut(), SIGNAL_CHECK_INTERVAL))?
        {
            return Ok(value);
        }
        if let Some(slow) = when_slow.take() {
            slow(py)?;
        }
    }
}

/// Only the beginning blocks the thread.
fn drive_greenlet<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
    greenlets: Greenlets<'_>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    if let Poll::Ready(value) = checked(py, || ffi::wait(future.as_mut(), GREENLET_BLOCK))? {
        return Ok(value);
    }
    when_slow(py)?;
    let mut waiter = greenlets.waiter();
    loop {
        let wakes = waiter.wakes();
        if let Poll::Ready(value) = checked(py, || wakes.poll(future.as_mut()))? {
            return Ok(value);
        }
        while !waiter.is_woken() {
            waiter.pause()?;
            py.check_signals()?;
            raise_injected(py)?;
        }
    }
}

/// Polls without the GIL, then checks for exceptions.
///
/// Signals are checked even if the future is done. Otherwise an exception of a handler would be raised after the lease
/// was returned.
fn checked<T: Send>(py: Python<'_>, poll: impl FnOnce() -> Poll<T> + Send) -> PyResult<Poll<T>> {
    let polled = guarded(|| Ok(py.detach(poll)))?;
    py.check_signals()?;
    if polled.is_pending() {
        raise_injected(py)?;
    }
    Ok(polled)
}

/// Raises the exception that another thread has set for this one, by `PyThreadState_SetAsyncExc`, if there is one.
///
/// The interpreter looks for it when a function of Python code begins, and nowhere in its API. A call whose result
/// needs no clean-up leaves it to the code of the caller.
pub(crate) fn raise_injected(py: Python<'_>) -> PyResult<()> {
    static FUNCTION: Once<Py<PyAny>> = Once::new();
    let make = || Ok(py.eval(c"lambda: None", Some(&PyDict::new(py)), None)?.unbind());
    FUNCTION.get_or_try_init(py, make)?.call0(py).map(drop)
}
