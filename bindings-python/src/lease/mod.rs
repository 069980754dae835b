//! The class `Lease`: wraps the core's `LeaseHandle`, and handles a lease whose object is garbage-collected.

pub(crate) mod async_lease;
mod asyncio;
mod holder;
mod methods;
mod watching;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyResourceWarning, PyRuntimeError};
use pyo3::prelude::*;
use redlock::ffi::{self, Level, Owner, Record, Topic};
use redlock::{LeaseHandle, LossReason};

use crate::call_site::{CallSite, warn_in_drop};
use crate::callbacks::Kept;
use crate::caller::Caller;
use crate::errors::{check, conclude, exception};
use crate::registry;
use crate::runtime::origin::CallContext;
use crate::runtime::wait::send_and_wait;
use crate::runtime::watch::Watch;
use crate::runtime::{exit, lock};
use crate::source::Recipe;

/// A held lock, renewed in the background until the lease is released, lost or garbage-collected.
///
/// `with lease:` releases it at the end. It raises LockLost if the lease is over, and RuntimeError if a with statement
/// has entered it already. If a lease is garbage-collected without a release, its renewal ends and the key expires when
/// its TTL ends. A ResourceWarning names the lease.
///
///     >>> with client.lock("job").acquire() as lease:
///     ...     lease.held
///     True
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Lease {
    hold: LeaseHandle,
    /// The lock, which the exit of the process uses to wait for clean-ups.
    lock: Arc<redlock::Lock>,
    owner: Owner,
    /// Whether another process may hold it too.
    is_attached: bool,
    /// The callbacks that are notified of its loss.
    watches: Mutex<Vec<Arc<Watch>>>,
    /// Whether the end of a with statement will release it.
    entered: AtomicBool,
    /// The frame of the with statement that holds it.
    block: Mutex<Option<Py<PyAny>>>,
    /// The body of an `async with` over the lease itself.
    body: Mutex<Option<Py<PyAny>>>,
    /// Owns the functions of the client, which renewals may need.
    kept: Option<Kept>,
    /// Names the client, and keeps its statistics readable.
    recipe: Arc<Recipe>,
    /// The context variables of its acquire, for its log records.
    context: Option<CallContext>,
}

impl Lease {
    /// Creates the object for a lease that this caller was granted.
    pub(crate) fn make(py: Python<'_>, hold: LeaseHandle, caller: &Caller) -> PyResult<Py<Self>> {
        Self::make_for(py, hold, caller, false)
    }

    /// Creates the object for a lease that another process may still hold.
    pub(crate) fn make_attached(
        py: Python<'_>,
        hold: LeaseHandle,
        caller: &Caller,
    ) -> PyResult<Py<Self>> {
        Self::make_for(py, hold, caller, true)
    }

    fn make_for(
        py: Python<'_>,
        hold: LeaseHandle,
        caller: &Caller,
        is_attached: bool,
    ) -> PyResult<Py<Self>> {
        let (lock, owner, kept) = (Arc::clone(&caller.lock), caller.owner, caller.kept.clone());
        let (recipe, context) = (Arc::clone(&caller.recipe), caller.context.clone());
        ffi::note_call_site(&hold, caller.call_site.clone());
        ffi::note_owner(&hold, owner);
        let (watches, entered, block, body) = Default::default();
        #[rustfmt::skip]
        let lease = Self {
            hold, lock, owner, is_attached, watches, entered, block, body, kept, recipe, context,
        };
        let lease = Bound::new(py, lease)?;
        registry::add(&lease.get().hold, lease.as_any())?;
        Ok(lease.unbind())
    }

    /// Begins a with statement over the lease itself. Its end releases the lease, so each lease is entered once.
    fn enter(&self, py: Python<'_>) -> PyResult<()> {
        check(py, self.hold.ensure_held())?;
        if self.entered.swap(true, Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err(format!(
                "{} is already entered: the with statement that entered it releases it. \
                 Use the lease in that block without entering it again",
                self.__repr__()
            )));
        }
        Ok(())
    }

    /// Records the frame of the with statement over its lock that will release it, or `None` if none will.
    pub(crate) fn set_entered(&self, block: Option<Py<PyAny>>) {
        self.entered.store(block.is_some(), Ordering::Relaxed);
        self.set_block(block);
    }

    fn set_block(&self, block: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut *lock(&self.block), block);
        drop(old);
    }

    /// The owner that acquired the lease.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Called when the lease ended without a loss. Drops the callbacks.
    fn ended(&self) {
        registry::remove(&self.hold);
        self.set_block(None);
        let has_callbacks = !lock(&self.watches).is_empty();
        if has_callbacks && self.hold.lost_reason().is_none() {
            let watches = std::mem::take(&mut *lock(&self.watches));
            drop(watches);
        }
    }

    /// The error with the loss reason, if the lease was lost.
    fn loss(&self) -> Option<redlock::Error> {
        self.hold.ensure_held().err().filter(|error| error.loss_reason().is_some())
    }

    /// Called when the object is dropped after a loss, perhaps before the notification has arrived.
    fn tell_all(&self) {
        let watches = std::mem::take(&mut *lock(&self.watches));
        let loss = self.loss();
        let Some(error) = loss.filter(|error| error.loss_reason() != Some(LossReason::Forked))
        else {
            return;
        };
        watches.into_iter().for_each(|watch| watch.outlive(&error));
    }

    /// Releases the lease at the end of a with statement. The command is sent before any bytecode runs, and thus before
    /// any signal handler.
    pub(crate) fn leave(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().confirmed(py, error.is_none())? {
            Ok(()) => Ok(()),
            Err(problem) => slf.get().conclude(exception(py, &problem)?, error),
        }
    }

    /// Ends a `with` whose release failed.
    fn conclude(&self, problem: Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        conclude(problem, error, || ffi::logs_unconfirmed(&self.hold))
    }

    /// Releases the lease. `completed` tells whether its body ended without an exception.
    fn confirmed(&self, py: Python<'_>, completed: bool) -> PyResult<Result<(), redlock::Error>> {
        send_and_wait(py, || Ok(self.give_back(completed)))
            .inspect_err(|_| exit::record_interrupted(&self.lock))
    }

    fn give_back(
        &self,
        completed: bool,
    ) -> impl Future<Output = Result<(), redlock::Error>> + Send + 'static + use<> {
        let sent = ffi::release(&self.hold, completed);
        self.ended();
        sent
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        registry::remove(&self.hold);
        if self.hold.is_released() {
            return;
        }
        if !self.is_attached && is_raising() && self.hold.is_held() {
            let _asks = ffi::about_to_ask();
            ffi::undo(&self.hold);
            exit::record_interrupted(&self.lock);
            return;
        }
        let left = self.hold.remaining().as_secs_f64();
        if !self.hold.detach() {
            self.tell_all();
            return;
        }
        warn(Record {
            level: Level::Warn,
            topic: Topic::Lease,
            template: "{key}: a lease was collected without a release{place}. The key stays for up to {left} s",
            parts: vec![
                ("key", ffi::shown(&self.hold.key())),
                ("place", ffi::acquired_at(&self.hold)),
                ("left", format!("{left:.3}")),
            ],
            fields: Vec::new(),
            call_site: ffi::call_site::<CallSite>(&self.hold)
                .map(|site| Arc::new(site.clone()) as Arc<dyn ffi::CallSite>),
        });
    }
}

/// Whether an exception is being raised, so that the code that drops the lease has not received it. A variable of
/// Python code stays until the exception is handled.
fn is_raising() -> bool {
    Python::try_attach(PyErr::occurred).unwrap_or(false)
}

/// Creates the class that no module exports.
pub(crate) fn make_classes(py: Python<'_>) {
    watching::make_class(py);
}

/// Emits a ResourceWarning if the program shows those, as pytest and `python -X dev` do. Otherwise writes to the log. A
/// lease is reported once.
fn warn(record: Record) {
    let text = record.message();
    let warned = Python::try_attach(|py| warn_in_drop::<PyResourceWarning>(py, &text));
    if warned != Some(true) {
        ffi::log_event(record);
    }
}
