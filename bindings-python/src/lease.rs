//! What is held: thin answers from core's `LeaseHandle`, and what happens when Python forgets about it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use redlock::ffi::{self, Unit};
use redlock::{LeaseHandle, LossReason};

use crate::asking::Asking;
use crate::error::check;
use crate::runtime::mailbox::submit;
use crate::runtime::watch::Watch;
use crate::runtime::{Owner, dispatch, farewell, lock, mailbox, running_loop, wait};
use crate::{args, registry};

static ID: AtomicU64 = AtomicU64::new(1);

/// What you hold: renewed in the background until released, lost, or collected.
///
/// `with lease:` and `async with lease:` release it at the end. A lease that is collected without a release is not
/// released: its renewal ends, the key lives out its ttl, and a ResourceWarning names it.
///
///     >>> with client.lock("job").acquire() as lease:
///     ...     lease.held
///     True
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Lease {
    pub(crate) hold: LeaseHandle,
    pub(crate) client: u64,
    lock: Arc<redlock::Lock>,
    owner: Owner,
    id: u64,
    watches: Mutex<Vec<Arc<Watch>>>,
    body: Mutex<Option<Py<PyAny>>>,
}

impl Lease {
    pub(crate) fn make(py: Python<'_>, hold: LeaseHandle, asking: &Asking) -> PyResult<Py<Self>> {
        let Asking { client, owner, .. } = *asking;
        let lock = Arc::clone(&asking.lock);
        ffi::note_call_site(&hold, asking.place.clone());
        ffi::note_owner(&hold, owner.plain());
        let id = ID.fetch_add(1, Ordering::Relaxed);
        let (watches, body) = Default::default();
        let lease = Bound::new(py, Self { hold, client, lock, owner, id, watches, body })?;
        registry::add(owner, id, &lease)?;
        Ok(lease.unbind())
    }

    /// The lease is over by our own will: nobody has to be told of its loss any more.
    fn settle(&self) {
        registry::remove(self.owner, self.id);
        if self.hold.loss().is_none() {
            let watches = std::mem::take(&mut *lock(&self.watches));
            drop(watches);
        }
    }

    /// Its object goes after a loss, perhaps before the word of it has arrived.
    fn tell_all(&self) {
        let watches = std::mem::take(&mut *lock(&self.watches));
        let loss = self.hold.loss();
        let Some(error) = loss.filter(|error| error.loss_reason() != Some(LossReason::Forked))
        else {
            return;
        };
        watches.into_iter().for_each(|watch| watch.outlive(&error));
    }

    fn watch(&self, watch: Arc<Watch>) {
        lock(&self.watches).push(watch);
    }

    /// Releases at the end of a with statement. Sent before any bytecode runs, and so before any signal handler.
    pub(crate) fn leave(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().confirmed(py)? {
            Ok(()) => Ok(()),
            Err(problem) => conclude(py, &problem, error),
        }
    }

    fn confirmed(&self, py: Python<'_>) -> PyResult<Result<(), redlock::Error>> {
        let sent = self.give_back();
        wait(py, sent, |_| Ok(())).inspect_err(|_| farewell::note(&self.lock))
    }

    fn give_back(
        &self,
    ) -> impl Future<Output = Result<(), redlock::Error>> + Send + 'static + use<> {
        let sent = self.hold.release();
        self.settle();
        sent
    }
}

#[pymethods]
impl Lease {
    /// Whether it is still ours for sure, by the clock: no question to the nodes.
    ///
    ///     >>> lease.held
    ///     True
    #[getter]
    fn held(&self) -> bool {
        self.hold.held()
    }

    /// The seconds for which it is ours for sure; 0 when it is over.
    ///
    ///     >>> 9 < lease.remaining < lease.ttl
    ///     True
    #[getter]
    fn remaining(&self) -> f64 {
        self.hold.remaining().as_secs_f64()
    }

    /// The Redis key, or keys separated by commas.
    ///
    ///     >>> lease.key
    ///     'lock:job'
    #[getter]
    fn key(&self) -> String {
        self.hold.key()
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> lease.keys
    ///     ['lock:job']
    #[getter]
    fn keys(&self) -> Vec<String> {
        self.hold.keys().to_vec()
    }

    /// The value of the key while it is ours, as `attach` wants it: 32 hex digits. Who knows it can release the lock.
    ///
    ///     >>> len(lease.token)
    ///     32
    #[getter]
    fn token(&self) -> &str {
        self.hold.token()
    }

    /// Larger than that of every earlier lease of the lock: a resource that keeps the largest one can refuse who is late.
    ///
    /// Raises InvalidOption unless the lock was made with `fencing=True`, and for a lease from `attach`.
    ///
    ///     >>> first = client.lock("row", fencing=True).acquire()
    ///     >>> first.release()
    ///     >>> with client.lock("row", fencing=True) as second:
    ///     ...     second.fencing_token > first.fencing_token
    ///     True
    #[getter]
    fn fencing_token(&self, py: Python<'_>) -> PyResult<u64> {
        check(py, self.hold.fencing_token())
    }

    /// The seconds that a renewal makes it last: the option's, or what `extend` was given last.
    ///
    ///     >>> lease.ttl
    ///     10.0
    #[getter]
    fn ttl(&self) -> f64 {
        self.hold.ttl().as_secs_f64()
    }

    /// Raises LockLost when it is over, lost or released: ask before you write. No question to the nodes.
    ///
    ///     >>> lease.ensure_held()
    ///     >>> lease.release()
    ///     >>> lease.ensure_held()
    ///     Traceback (most recent call last):
    ///     redlock.LockLost: lock:job: the lease was released; nothing is held
    fn ensure_held(&self, py: Python<'_>) -> PyResult<()> {
        check(py, self.hold.ensure_held())
    }

    /// Makes it last at least `ttl` seconds from now (default: its own ttl); also the ttl of later renewals. Never
    /// shortens.
    ///
    /// Raises LockLost once it is over, QuorumUnavailable when too few nodes answered; then it goes on to its end. Raises
    /// InvalidOption for a ttl below 0.1, or above `restart_guard` over several nodes.
    ///
    ///     >>> lease.extend(ttl=30)
    ///     >>> lease.ttl, lease.remaining > 29
    ///     (30.0, True)
    #[pyo3(signature = (ttl: "float | datetime.timedelta | None" = None))]
    fn extend(&self, py: Python<'_>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let sent = check(py, ffi::extend(&self.hold, args::seconds("ttl", ttl)?, Unit::Seconds))?;
        check(py, wait(py, sent, |_| Ok(()))?)
    }

    /// `extend` for asyncio: sent at the call.
    ///
    ///     >>> await lease.aextend(ttl=30)
    #[pyo3(signature = (ttl: "float | datetime.timedelta | None" = None) -> "collections.abc.Awaitable[None]")]
    fn aextend<'py>(
        &self,
        py: Python<'py>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sent = check(py, ffi::extend(&self.hold, args::seconds("ttl", ttl)?, Unit::Seconds))?;
        submit(py, sent, |py, done| check(py, done).map(|()| py.None()))
    }

    /// Gives it back. A second time does nothing; after a loss it raises LockLost.
    ///
    /// Raises QuorumUnavailable when too few nodes confirmed within `node_timeout`: the keys then expire by themselves.
    ///
    ///     >>> lease.release()
    ///     >>> lease.held
    ///     False
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        check(py, self.confirmed(py)?)
    }

    /// `release` for asyncio: sent at the call, so that a cancellation only ends the waiting for its confirmation.
    ///
    ///     >>> await lease.arelease()
    #[pyo3(signature = () -> "collections.abc.Awaitable[None]")]
    fn arelease<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        submit(py, self.give_back(), |py, done| check(py, done).map(|()| py.None()))
    }

    /// Ends it here and leaves the key, which lives out its ttl or goes on under who attached to its token.
    ///
    /// True if it was still held. To hand a lease over: pass `token` on, wait for the other's `attach`, abandon.
    ///
    ///     >>> lease.abandon(), client.lock("job").inspect().held
    ///     (True, True)
    fn abandon(&self) -> bool {
        let held = self.hold.abandon();
        self.settle();
        held
    }

    /// Calls `callback(error)` once with the LockLost, when the lease is lost; soon, if it is lost already. Never after a
    /// release.
    ///
    /// On the running event loop, or else on a thread for such calls. Raises InvalidOption for what cannot be called.
    ///
    ///     >>> done = threading.Event()
    ///     >>> lease.on_lost(lambda error: (print(error.reason), done.set()))
    ///     >>> client.close()
    ///     >>> done.wait(5)
    ///     closed
    ///     True
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]"))]
    fn on_lost(&self, py: Python<'_>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        let callback = args::callback(callback)?;
        let lost = self.hold.lost();
        let watch = match running_loop(py)? {
            Some(_) => mailbox::watch(py, lost, callback)?,
            None => dispatch::watch(py, lost, callback)?,
        };
        self.watch(watch);
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        Self::leave(slf, error)
    }

    #[pyo3(signature = () -> "collections.abc.Awaitable[Lease]")]
    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        scope(slf.py())?.call_method1("enter_lease", (slf,))
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "collections.abc.Awaitable[None]")]
    fn __aexit__<'py>(
        slf: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        trace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (kind, trace);
        scope(slf.py())?.call_method1("leave_lease", (slf, error))
    }

    fn __repr__(&self) -> String {
        let state = match (self.hold.held(), self.hold.released(), self.hold.loss()) {
            (true, ..) => format!("{:.3} s left", self.hold.remaining().as_secs_f64()),
            (_, true, _) => "released".to_owned(),
            (_, _, Some(_)) => "lost".to_owned(),
            _ => "abandoned".to_owned(),
        };
        format!("<redlock.Lease {:?}: {state}>", self.hold.key())
    }

    /// The body of an `async with` that runs under this lease; for `_scope`.
    #[getter]
    fn _body(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.body).as_ref().map(|body| body.clone_ref(py))
    }

    #[pyo3(signature = (body: "object"))]
    fn _set_body(&self, body: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut *lock(&self.body), body);
        drop(old);
    }

    /// Why it was lost, if it was; for `_scope`.
    #[pyo3(signature = () -> "redlock.errors.LockLost | None")]
    fn _loss<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.hold.loss().map(|error| crate::error::exception(py, &error)).transpose()
    }

    /// Whether this thread or task acquired it; for `_scope`.
    fn _mine(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.owner == Owner::current(py)?)
    }

    /// Sends the release and does not wait; for `_scope`.
    fn _let_go(&self) {
        redlock::ffi::spawn(drop_output(self.give_back())).detach();
        farewell::note(&self.lock);
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        // Whoever has still to be told of a loss must not be collected: that callback is out of the collector's reach.
        if let Ok(watches) = self.watches.try_lock()
            && !watches.is_empty()
        {
            let lost = self.hold.loss().is_some();
            let free = watches.iter().filter(|watch| !lost || watch.told());
            free.into_iter().try_for_each(|watch| visit.call(&watch.callback))?;
        }
        if let Ok(body) = self.body.try_lock() {
            visit.call(&*body)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let body = lock(&self.body).take();
        drop(body);
        if self.hold.loss().is_none() {
            let watches = std::mem::take(&mut *lock(&self.watches));
            drop(watches);
        }
    }
}

async fn drop_output<F: Future>(future: F) {
    drop(future.await);
}

impl Drop for Lease {
    fn drop(&mut self) {
        registry::remove(self.owner, self.id);
        let left = self.hold.remaining().as_secs_f64();
        if self.hold.released() {
            return;
        }
        if !self.hold.abandon() {
            self.tell_all();
            return;
        }
        let text = format!(
            "{}: a lease was collected without a release{}. The key stays for up to {:.3} s",
            redlock::ffi::shown(&self.hold.key()),
            ffi::acquired_at(&self.hold),
            left
        );
        tracing::warn!(target: "redlock", "{text}");
        Python::try_attach(|py| {
            // We may be in the middle of somebody else's exception.
            let current = PyErr::take(py);
            let category = py.get_type::<PyResourceWarning>();
            let text = std::ffi::CString::new(text.replace('\0', "?")).unwrap_or_default();
            if let Err(error) = PyErr::warn(py, &category, &text, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(current) = current {
                current.restore(py);
            }
        });
    }
}

/// What a failed release does to the end of a with statement that `error` may be leaving.
pub(crate) fn conclude(
    py: Python<'_>,
    problem: &redlock::Error,
    error: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let problem = crate::error::exception(py, problem)?;
    scope(py)?.call_method1("conclude", (problem, error)).map(drop)
}

/// The Python half: with statements, frames, cancellation.
pub(crate) fn scope(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static SCOPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    SCOPE
        .get_or_try_init(py, || {
            py.import("redlock._scope").map(|module| module.into_any().unbind())
        })
        .map(|module| module.bind(py))
}
