//! The origin of log records: the line of the program that made a call, and the call's context variables.
//!
//! A record may be made on a thread without the GIL, so the context is copied when a call begins, and only if records
//! of calls are logged. The call, and then its lease object, own the copy, and the core has a weak reference. Queued
//! records own the copy too, which the garbage collector does not see.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use pyo3::prelude::*;
use redlock::ffi::Topic;

use super::traversed::Traversed;
use crate::once_cell::Once;

/// A line of the user's program.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) number: u32,
    /// Whether its file may be one of this package, or that of `ExitStack`.
    pub(crate) may_be_library: bool,
}

/// A copy of the context variables of a call.
pub(crate) type CallContext = Arc<Traversed>;

/// Where a lease was acquired.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    /// `None` if no Python code called.
    pub(crate) line: Option<Arc<Line>>,
    /// Whether a coroutine awaited the acquire.
    pub(crate) is_awaited: bool,
    /// The context variables, while the call or its lease exists.
    pub(crate) context: Option<Weak<Traversed>>,
}

impl CallSite {
    /// The context variables, if they still exist. The caller drops them with the GIL.
    pub(super) fn context(&self) -> Option<CallContext> {
        self.context.as_ref()?.upgrade()
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "{}:{}", line.file, line.number),
            None => f.write_str("an unknown line"),
        }
    }
}

/// The topics whose records belong to calls, and whether each is logged.
static LOGGED: [AtomicBool; Topic::ALL.len()] =
    [const { AtomicBool::new(false) }; Topic::ALL.len()];

/// Sets whether warnings of a topic are logged.
pub(super) fn set_logged(topic: Topic, is_logged: bool) {
    LOGGED[topic as usize].store(is_logged, Ordering::Relaxed);
}

/// Copies the context variables of the current call, if records of calls are logged.
pub(crate) fn capture(py: Python<'_>) -> PyResult<Option<CallContext>> {
    let is_logged = |topic: Topic| LOGGED[topic as usize].load(Ordering::Relaxed);
    if !is_logged(Topic::Acquire) && !is_logged(Topic::Lease) {
        return Ok(None);
    }
    Ok(Some(Arc::new(Traversed::new(copy_context(py)?.bind(py))?)))
}

/// Copies the current context (`contextvars`).
pub(super) fn copy_context(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static COPY: Once<Py<PyAny>> = Once::new();
    // Not from `contextvars`. A signal handler that interrupts the import of that module finds it empty.
    Ok(COPY.import(py, "_contextvars", "copy_context")?.call0()?.unbind())
}

/// Calls a method of an event loop that keeps a callback. The callback gets an empty context: the loop would otherwise
/// keep the context variables of the task that acquires first.
pub(super) fn call_without_context<'py>(
    event_loop: &Bound<'py, PyAny>,
    method: &str,
    first: impl IntoPyObject<'py>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static CONTEXT: Once<Py<PyAny>> = Once::new();
    let py = event_loop.py();
    let method = event_loop.getattr(method)?;
    let context = CONTEXT.import(py, "_contextvars", "Context")?.call0()?;
    context.call_method1("run", (method, first, second))
}

thread_local! {
    /// The call whose future this thread polls.
    static CURRENT_CALL: RefCell<Option<CallSite>> = const { RefCell::new(None) };
}

/// The call whose future this thread polls. Its records are made within.
pub(super) fn current() -> Option<CallSite> {
    CURRENT_CALL.with_borrow(Clone::clone)
}

/// A future whose log records belong to a call.
pub(crate) struct Originating<F> {
    future: F,
    /// `None` if records of calls are not logged.
    call: Option<CallSite>,
}

impl<F> Originating<F> {
    /// Makes the records of this future those of the call.
    pub(crate) fn new(future: F, call: &CallSite) -> Self {
        Self { future, call: call.context.is_some().then(|| call.clone()) }
    }
}

impl<F: Future> Future for Originating<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is never moved out of its field, and the other field is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let _restored =
            this.call.as_ref().map(|call| Restored(CURRENT_CALL.replace(Some(call.clone()))));
        // SAFETY: as above.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(cx)
    }
}

/// Sets the earlier call again, also after a panic.
struct Restored(Option<CallSite>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT_CALL.set(self.0.take());
    }
}
