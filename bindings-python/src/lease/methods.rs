//! The blocking methods of a lease.

use pyo3::prelude::*;
use redlock::ffi::{self, Unit};

use super::Lease;
use crate::args;
use crate::call_site;
use crate::callbacks::Kept;
use crate::errors::{check, not_sync};
use crate::runtime::lock;
use crate::runtime::wait::send_and_wait;
use crate::unsupported::{no_constructor, unsupported_with};

no_constructor!(Lease, "lock.acquire() and lock.try_acquire() return leases");

#[pymethods]
impl Lease {
    /// Whether the lease is valid now. Does not contact a server.
    ///
    ///     >>> lease.held
    ///     True
    #[getter]
    pub(super) fn held(&self) -> bool {
        self.hold.is_held()
    }

    /// The time for which the lease is valid, in seconds. 0 when it has ended.
    ///
    ///     >>> 9 < lease.remaining < lease.ttl
    ///     True
    #[getter]
    pub(super) fn remaining(&self) -> f64 {
        self.hold.remaining().as_secs_f64()
    }

    /// The Redis key. Several keys are separated by commas.
    ///
    ///     >>> lease.key
    ///     'lock:job'
    #[getter]
    pub(super) fn key(&self) -> String {
        self.hold.key()
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> lease.keys
    ///     ['lock:job']
    #[getter]
    pub(super) fn keys(&self) -> Vec<String> {
        self.hold.keys().to_vec()
    }

    /// The value of the key while the lease is held, as 32 hex digits, followed by a colon and the label
    /// if the lock has one. Pass it to `attach` to hand the lease over.
    ///
    /// Any client with this token can release the lock.
    ///
    ///     >>> len(lease.token)
    ///     32
    #[getter]
    pub(super) fn token(&self) -> &str {
        self.hold.token()
    }

    /// A number that is larger than the fencing token of every earlier lease of the lock.
    ///
    /// A resource that stores the largest token can reject requests of earlier holders.
    ///
    /// Raises InvalidOption unless the lock was made with `fencing=True`, and for a lease from `attach`.
    ///
    ///     >>> first = client.lock("row", fencing=True).acquire()
    ///     >>> first.release()
    ///     >>> with client.lock("row", fencing=True) as second:
    ///     ...     second.fencing_token > first.fencing_token
    ///     True
    #[getter]
    pub(super) fn fencing_token(&self, py: Python<'_>) -> PyResult<u64> {
        check(py, self.hold.fencing_token())
    }

    /// The lifetime that a renewal sets, in seconds: the lock's `ttl`, or the argument of the last confirmed
    /// `extend`. 0 in a forked child.
    ///
    ///     >>> lease.ttl
    ///     10.0
    #[getter]
    pub(super) fn ttl(&self) -> f64 {
        self.hold.ttl().as_secs_f64()
    }

    /// Raises LockLost if the lease was lost, and LockReleased if it was released. Call it before each write. Does not
    /// contact a server.
    ///
    ///     >>> lease.ensure_held()
    ///     >>> lease.release()
    ///     >>> lease.ensure_held()
    ///     Traceback (most recent call last):
    ///     redlock.LockReleased: lock:job: the lease was released and is no longer held
    pub(super) fn ensure_held(&self, py: Python<'_>) -> PyResult<()> {
        check(py, self.hold.ensure_held())
    }

    /// Extends the lease to at least `ttl` seconds from now (default: its current ttl), but not beyond `max_hold`.
    /// Later renewals use the same ttl. Never shortens the lease.
    ///
    /// Raises LockLost if the lease has ended. Raises QuorumUnavailable if too few nodes replied. The lease is then
    /// valid until its deadline. Raises InvalidOption for a ttl below 0.1, or above `restart_guard` while that is on.
    ///
    ///     >>> lease.extend(ttl=30)
    ///     >>> lease.ttl, lease.remaining > 29
    ///     (30.0, True)
    #[pyo3(signature = (ttl: "float | datetime.timedelta | None" = None))]
    fn extend(&self, py: Python<'_>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let ttl = args::seconds("ttl", ttl)?;
        let extended = || check(py, ffi::extend(&self.hold, ttl, Unit::Seconds));
        check(py, send_and_wait(py, extended)?)
    }

    /// Releases the lock. A second call does nothing. Raises LockLost if the lease was lost.
    ///
    /// Raises QuorumUnavailable if too few nodes confirmed within `node_timeout`. The keys then expire when their TTL
    /// ends.
    ///
    ///     >>> lease.release()
    ///     >>> lease.held
    ///     False
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        check(py, self.confirmed(py, false)?)
    }

    /// Ends the lease without deleting its key. Returns True if the lease was still held.
    ///
    /// The key expires when its TTL ends, unless another process attached to its token. To hand a lease over, pass
    /// `token` on, wait for the `attach` of the other process, and then detach.
    ///
    ///     >>> lease.detach(), client.lock("job").inspect().held
    ///     (True, True)
    pub(super) fn detach(&self) -> bool {
        let held = self.hold.detach();
        self.ended();
        held
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        slf.get().enter(slf.py())?;
        slf.get().set_block(Some(call_site::frame(slf.py())?.unbind()));
        Ok(slf.clone().unbind())
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

    pub(super) fn __repr__(&self) -> String {
        self.shown("Lease")
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        Kept::traverse(self.kept.as_ref(), &visit)?;
        if let Some(context) = &self.context {
            context.traverse(&visit)?;
        }
        // The garbage collector must not see callbacks that still have to be notified of a loss.
        if let Ok(watches) = self.watches.try_lock()
            && !watches.is_empty()
            && self.hold.lost_reason().is_none()
        {
            watches.iter().try_for_each(|watch| watch.traverse(&visit))?;
        }
        for kept in [&self.body, &self.block] {
            if let Ok(kept) = kept.try_lock() {
                visit.call(&*kept)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        let body = lock(&self.body).take();
        drop(body);
        self.set_block(None);
        if self.hold.lost_reason().is_none() {
            let watches = std::mem::take(&mut *lock(&self.watches));
            drop(watches);
        }
    }
}

unsupported_with!(Lease, __aenter__, __aexit__, |lease| not_sync(
    &lease.__repr__(),
    "'async with lock:', which acquires without blocking the event loop, or 'with lease:'"
));

impl Lease {
    /// The representation of a lease of this class.
    pub(super) fn shown(&self, class: &str) -> String {
        let state = match (self.hold.is_held(), self.hold.is_released(), self.hold.lost_reason()) {
            (true, ..) => format!("{:.3} s left", self.hold.remaining().as_secs_f64()),
            (_, true, _) => "released".to_owned(),
            (_, _, Some(_)) => "lost".to_owned(),
            _ => "detached".to_owned(),
        };
        format!("<redlock.{class} \"{}\": {state}>", ffi::shown(&self.hold.key()))
    }
}
