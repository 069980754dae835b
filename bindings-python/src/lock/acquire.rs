//! An acquire that a coroutine awaits. Its future completes when the nodes have replied, and the task then takes the
//! lease.
//!
//! `runtime::completions` runs the future and resumes the task.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use redlock::ffi;

use crate::caller::Caller;
use crate::errors::internal;
use crate::lease::Lease;
use crate::lease::async_lease::AsyncLease;
use crate::runtime::origin::Originating;
use crate::runtime::spawn::{Call, spawn_call};
use crate::runtime::{exit, lock};

type Granted = Result<Option<redlock::Lease>, redlock::Error>;

/// One acquire that has begun. Dropping it releases a grant that was not taken.
#[pyclass(frozen, name = "_Acquire", module = "redlock")]
pub(crate) struct Acquire {
    caller: Caller,
    core: ffi::Acquire,
    call: Mutex<Option<Call>>,
    /// The reply, which the event loop owns. Dropping it releases a lease that was not taken.
    granted: Mutex<Weak<Mutex<Option<Granted>>>>,
    /// The accepted reply.
    accepted: Mutex<Option<Granted>>,
}

impl Acquire {
    pub(super) fn new(caller: Caller, core: ffi::Acquire) -> Self {
        let (call, granted, accepted) = Default::default();
        Self { caller, core, call, granted, accepted }
    }

    /// Ends the call. Returns false if there was none.
    fn end_call(&self) -> bool {
        let call = lock(&self.call).take();
        call.is_some()
    }
}

#[pymethods]
impl Acquire {
    /// Starts the acquire, or repeats it. Returns an asyncio future that is done when it has a result. Then call
    /// `accept`.
    #[pyo3(signature = () -> "asyncio.Future[None]")]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kept = Arc::new(Mutex::new(None));
        let granted = Arc::downgrade(&kept);
        *lock(&self.granted) = Weak::clone(&granted);
        let converted = move |py: Python<'_>, answer| {
            if let Some(granted) = granted.upgrade() {
                *lock(&granted) = Some(answer);
            }
            Ok(py.None())
        };
        let future = Originating::new(self.core.acquire(), &self.caller.call_site);
        let (loop_future, call) = spawn_call(py, future, kept, converted)?;
        *lock(&self.call) = Some(call);
        Ok(loop_future)
    }

    /// Whether the reply is still valid now that the task runs. If true, call `lease`. If false, the lease has expired
    /// in the meantime, so call `start` again.
    fn accept(&self) -> PyResult<bool> {
        let granted = lock(&self.granted).upgrade();
        let answer = granted.and_then(|granted| lock(&granted).take());
        self.end_call();
        let Some(answer) = answer else { return Err(internal()) };
        let accepted = self.core.accept(answer);
        let stands = accepted.is_some();
        *lock(&self.accepted) = accepted;
        Ok(stands)
    }

    /// Returns the lease, or None if an acquire that tries once found the lock held.
    fn lease(&self, py: Python<'_>) -> PyResult<Option<Py<AsyncLease>>> {
        let Some(answer) = lock(&self.accepted).take() else { return Err(internal()) };
        let Some(lease) = self.caller.observed(py, answer)? else { return Ok(None) };
        let lease = Lease::make(py, lease.into_handle(), &self.caller)?;
        AsyncLease::make(py, lease).map(Some)
    }

    /// Ends the acquire, and releases a lease that was granted in the meantime.
    fn give_up(&self) {
        let ended = self.end_call();
        let accepted = lock(&self.accepted).take();
        // Otherwise the acquire has ended, and its own error is being raised.
        if ended || accepted.is_some() {
            exit::record_interrupted(&self.caller.lock);
        }
    }
}
