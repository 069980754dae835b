//! What to lock: arguments in, core's future on its way, a `Lease` out.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use redlock::ffi::{self, LockArgs, Unit};

use crate::args::{self, Wait, WaitArg, refuse};
use crate::asking::{Asking, warn_of_loop, warn_of_own};
use crate::client::Source;
use crate::error::{check, invalid};
use crate::inspection::Inspection;
use crate::lease::{Lease, scope};
use crate::place::Place;
use crate::runtime::mailbox::{cancel, submit};
use crate::runtime::{self, Owner, farewell};

/// The name, or the function of the decorated function's arguments that gives it.
pub(crate) enum Names {
    Fixed(Vec<String>),
    Of(Py<PyAny>),
}

/// What to lock. No state of its own: share it between threads and tasks, and use it many times.
///
/// `with lock as lease:` and `async with lock as lease:` hold it for the block; `@lock` holds it for each call.
///
///     >>> with client.lock("job", ttl=10) as lease:
///     ...     lease.key
///     'lock:job'
///     >>> @client.lock(lambda user: f"report:{user}", wait=0)
///     ... def report(user): return len(user)
///     >>> report("eve")
///     3
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Lock {
    source: Source,
    names: Names,
    args: LockArgs,
    /// Core's lock, with the number of the client it belongs to: the default client may be another one later.
    core: Mutex<Option<(u64, Arc<redlock::Lock>)>>,
    /// The with statements that are under way; `_scope` keeps it.
    entries: Py<PyList>,
}

impl Lock {
    pub(crate) fn make(
        py: Python<'_>,
        source: Source,
        names: Names,
        args: LockArgs,
    ) -> PyResult<Self> {
        let entries = PyList::empty(py).unbind();
        let lock = Self { source, names, args, core: Mutex::default(), entries };
        // A wrong option is told here, not at the first acquire.
        if let Names::Fixed(names) = &lock.names {
            check(py, ffi::lock(&lock.source.checker(py)?, names.clone(), &lock.args))?;
        }
        Ok(lock)
    }

    fn core(&self, py: Python<'_>) -> PyResult<(u64, Arc<redlock::Lock>)> {
        let Names::Fixed(names) = &self.names else {
            return Err(invalid(
                "this lock's name is a function of arguments: it can only decorate functions",
            ));
        };
        let (number, client) = self.source.client(py)?;
        if let Some((of, lock)) = &*runtime::lock(&self.core)
            && *of == number
        {
            return Ok((number, Arc::clone(lock)));
        }
        let lock = Arc::new(check(py, ffi::lock(&client, names.clone(), &self.args))?);
        let old = runtime::lock(&self.core).replace((number, Arc::clone(&lock)));
        drop(old);
        Ok((number, lock))
    }

    /// Looks at who asks, and warns of a lock that would wait for itself.
    fn asking(&self, frame: &Bound<'_, PyAny>, waits: bool) -> PyResult<Asking> {
        let py = frame.py();
        let (client, lock) = self.core(py)?;
        let (owner, place) = (Owner::current(py)?, Place::of(frame)?);
        if waits {
            warn_of_own(py, owner, client, &lock)?;
        }
        Ok(Asking { lock, client, owner, place })
    }

    fn acquired(&self, frame: &Bound<'_, PyAny>, wait: Wait) -> PyResult<Py<Lease>> {
        let py = frame.py();
        let begun = Instant::now();
        let asking = self.asking(frame, wait.or(self.args.number("wait")) != Some(0.0))?;
        let (mut left, owner) = (wait, Some(asking.owner.plain()));
        loop {
            let future = ffi::acquire(&asking.lock, left, Unit::Seconds, owner);
            let future = check(py, future)?;
            let granted = asking.wait(py, future, |py| {
                warn_of_loop(py, "'async with', or 'await lock.aacquire()'", &asking.lock.key())
            })?;
            if granted.as_ref().map_or(true, |lease| lease.held()) {
                return asking.lease(py, granted);
            }
            // Its time was over before this thread had the GIL again: ask again, within the same budget.
            left = self.left(wait, begun.elapsed().as_secs_f64());
        }
    }
}

impl Lock {
    /// Takes out the entry that this frame made. No bytecode runs here, so no signal handler comes between it and the release.
    fn entry_of<'py>(&self, frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = frame.py();
        let entries = self.entries.bind(py);
        for at in (0..entries.len()).rev() {
            let entry = entries.get_item(at)?;
            if entry.getattr(intern!(py, "frame"))?.is(frame) {
                entries.call_method1(intern!(py, "remove"), (&entry,))?;
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// The Python half of `@lock`.
fn decorator(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static DECORATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    DECORATE.import(py, "redlock._decorator", "decorate")
}

fn caller(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET_FRAME.import(py, "sys", "_getframe")?.call0()
}

#[pymethods]
impl Lock {
    /// The lease, once it is ours: waits for `wait` seconds (None: for ever; not given: the lock's own).
    ///
    /// Raises LockTimeout when somebody else held it all the time, QuorumUnavailable when too few nodes answered all the
    /// time, and ClientClosed. A KeyboardInterrupt leaves no key behind.
    ///
    ///     >>> with lock.acquire(wait=5) as lease:
    ///     ...     lock.acquire(wait=0)
    ///     Traceback (most recent call last):
    ///     redlock.LockTimeout: lock:job: not acquired within ...
    #[pyo3(signature = (*args: "typing.Never", wait: "float | datetime.timedelta | None" = WaitArg::NotGiven, **kwargs: "typing.Never"))]
    fn acquire(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        wait: WaitArg,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Lease>> {
        refuse("acquire()", "wait=", args, kwargs)?;
        self.acquired(&caller(py)?, wait.into())
    }

    /// `acquire` for asyncio: begins when awaited; a cancellation leaves no key behind.
    ///
    ///     >>> async with await lock.aacquire(wait=5) as lease:
    ///     ...     lease.held
    ///     True
    #[pyo3(signature = (*args: "typing.Never", wait: "float | datetime.timedelta | None" = WaitArg::NotGiven, **kwargs: "typing.Never") -> "collections.abc.Coroutine[typing.Any, typing.Any, Lease]")]
    fn aacquire<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        wait: WaitArg,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        refuse("aacquire()", "wait=", args, kwargs)?;
        let py = slf.py();
        scope(py)?.call_method1(intern!(py, "acquire"), (slf, caller(py)?, Wait::from(wait)))
    }

    /// The lease, or None if somebody else holds it or waits for it in this process: one round.
    ///
    /// Raises QuorumUnavailable when too few nodes answered.
    ///
    ///     >>> with lock.try_acquire() as lease:
    ///     ...     print(lock.try_acquire())
    ///     None
    fn try_acquire(&self, py: Python<'_>) -> PyResult<Option<Py<Lease>>> {
        let asking = self.asking(&caller(py)?, false)?;
        loop {
            let future = asking.lock.try_acquire();
            let granted = asking.wait(py, future, |_| Ok(()))?;
            match granted.transpose() {
                None => return Ok(None),
                Some(Ok(lease)) if !lease.held() => {}
                Some(granted) => return asking.lease(py, granted).map(Some),
            }
        }
    }

    /// `try_acquire` for asyncio: begins when awaited.
    ///
    ///     >>> lease = await lock.atry_acquire()
    ///     >>> await lease.arelease()
    #[pyo3(signature = () -> "collections.abc.Coroutine[typing.Any, typing.Any, Lease | None]")]
    fn atry_acquire<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        scope(py)?.call_method1(intern!(py, "try_acquire"), (slf, caller(py)?))
    }

    /// Continues the lease that another process holds under this token. Raises LockLost if it is not held.
    ///
    /// Both are one owner then, and each renews for itself. A release by either deletes the key: the other one is told of
    /// a loss. So whoever hands a lease over ends its own by `lease.abandon()`; a process that ends without a release does
    /// no harm either. The fencing token does not come with the lease: hand it over with the token.
    ///
    ///     >>> ours = lock.acquire()
    ///     >>> theirs = lock.attach(ours.token)      # as a rule in another process
    ///     >>> ours.abandon()                        # the key stays: theirs has it
    ///     True
    ///     >>> theirs.release()
    #[pyo3(signature = (token: "str"))]
    pub(crate) fn attach(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<Py<Lease>> {
        let token = args::text("token", Some(token))?.unwrap_or_default();
        let asking = self.asking(&caller(py)?, false)?;
        let granted = asking.wait(py, asking.attach(&token), |_| Ok(()))?;
        asking.hold(py, granted)
    }

    /// `attach` for asyncio.
    ///
    ///     >>> theirs = await lock.aattach(lease.token)
    #[pyo3(signature = (token: "str") -> "collections.abc.Awaitable[Lease]")]
    pub(crate) fn aattach<'py>(
        &self,
        py: Python<'py>,
        token: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let token = args::text("token", Some(token))?.unwrap_or_default();
        let asking = self.asking(&caller(py)?, false)?;
        let future = asking.attach(&token);
        submit(py, future, move |py, granted| Ok(asking.hold(py, granted)?.into_any()))
    }

    /// Who holds it, by each node's word: a snapshot, which may be over when you read it.
    ///
    /// Raises QuorumUnavailable when fewer nodes than a quorum answered within `node_timeout`.
    ///
    ///     >>> lock.inspect().held
    ///     False
    fn inspect(&self, py: Python<'_>) -> PyResult<Py<Inspection>> {
        let found = runtime::wait(py, self.core(py)?.1.inspect(), |_| Ok(()))?;
        Inspection::make(py, check(py, found)?)
    }

    /// `inspect` for asyncio.
    ///
    ///     >>> (await lock.ainspect()).held
    ///     False
    #[pyo3(signature = () -> "collections.abc.Awaitable[Inspection]")]
    fn ainspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.core(py)?.1.inspect();
        submit(py, found, |py, found| Ok(Inspection::make(py, check(py, found)?)?.into_any()))
    }

    /// The Redis key; of several names all keys, with commas between.
    ///
    ///     >>> client.lock(["a", "b"]).key
    ///     'lock:a, lock:b'
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core(py)?.1.key())
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> client.lock(["a", "b"]).keys
    ///     ['lock:a', 'lock:b']
    #[getter]
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.core(py)?.1.keys().to_vec())
    }

    /// The names, without the client's prefix.
    ///
    ///     >>> client.lock(["a", "b"]).names
    ///     ['a', 'b']
    #[getter]
    fn names(&self) -> Vec<String> {
        match &self.names {
            Names::Fixed(names) => names.clone(),
            Names::Of(_) => Vec::new(),
        }
    }

    /// A function, or coroutine function, that holds the lock during each call.
    ///
    /// If a function that is no `async def` returns an awaitable, the lock is held until that has ended. Raises TypeError
    /// for a generator, whose caller decides when it ends.
    #[pyo3(signature = (function: "F") -> "F")]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        decorator(slf.py())?.call1((slf, function))
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Lease>> {
        let py = slf.py();
        let lease = scope(py)?.call_method1(intern!(py, "enter"), (slf,))?;
        Ok(lease.cast_into()?)
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        let py = slf.py();
        let frame = caller(py)?;
        let entry = match slf.get().entry_of(&frame)? {
            Some(entry) => entry,
            None => scope(py)?.call_method1("take", (slf, frame))?,
        };
        let lease = entry.getattr(intern!(py, "lease"))?;
        // Of a decorated call: what it returned holds the lease.
        if lease.is_none() { Ok(()) } else { Lease::leave(lease.cast()?, error) }
    }

    #[pyo3(signature = () -> "collections.abc.Coroutine[typing.Any, typing.Any, Lease]")]
    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        scope(py)?.call_method1(intern!(py, "aenter"), (slf,))
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "collections.abc.Coroutine[typing.Any, typing.Any, None]")]
    fn __aexit__<'py>(
        slf: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        trace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (kind, trace);
        let py = slf.py();
        scope(py)?.call_method1(intern!(py, "aexit"), (slf, error))
    }

    #[expect(clippy::unused_self, reason = "a method of Python's data model")]
    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "a Lock only describes what to lock, it is neither true nor false: use 'with lock:', or lease = lock.try_acquire()",
        ))
    }

    fn __repr__(&self) -> String {
        match &self.names {
            Names::Fixed(names) => {
                format!("<redlock.Lock {}>", redlock::ffi::shown(&names.join(", ")))
            }
            Names::Of(_) => "<redlock.Lock named by arguments>".to_owned(),
        }
    }

    /// The with statements under way; for `_scope`.
    #[getter]
    fn _entries(&self, py: Python<'_>) -> Py<PyAny> {
        self.entries.clone_ref(py).into_any()
    }

    /// Acquires for a with statement: the lease is in its entry, and that in the list, before any signal handler can run.
    #[pyo3(signature = (entry: "typing.Any") -> "None")]
    fn _acquire_for(&self, py: Python<'_>, entry: &Bound<'_, PyAny>) -> PyResult<()> {
        let lease = self.acquired(&entry.getattr(intern!(py, "frame"))?, None)?;
        entry.setattr(intern!(py, "lease"), lease)?;
        self.entries.bind(py).append(entry)
    }

    /// An asyncio future for the lease; for `_scope`, which ends it by `_cancel`.
    #[pyo3(signature = (frame: "types.FrameType", wait: "float | None") -> "asyncio.Future[Lease]")]
    fn _begin<'py>(&self, frame: &Bound<'py, PyAny>, wait: Wait) -> PyResult<Bound<'py, PyAny>> {
        let py = frame.py();
        let asking = self.asking(frame, wait.or(self.args.number("wait")) != Some(0.0))?;
        let owner = Some(asking.owner.plain());
        let future = ffi::acquire(&asking.lock, wait, Unit::Seconds, owner);
        let future = check(py, future)?;
        submit(py, future, move |py, granted| Ok(asking.lease(py, granted)?.into_any()))
    }

    #[pyo3(signature = (frame: "types.FrameType") -> "asyncio.Future[Lease | None]")]
    fn _begin_try<'py>(&self, frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let asking = self.asking(frame, false)?;
        let future = asking.lock.try_acquire();
        submit(frame.py(), future, move |py, granted| match granted.transpose() {
            None => Ok(py.None()),
            Some(granted) => Ok(asking.lease(py, granted)?.into_any()),
        })
    }

    #[pyo3(signature = (future: "asyncio.Future[typing.Any]") -> "None")]
    fn _cancel(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        farewell::note(&self.core(future.py())?.1);
        cancel(future)
    }

    /// What is left of `wait`, or of the lock's own, after `passed` seconds.
    #[pyo3(name = "_left")]
    fn left(&self, wait: Wait, passed: f64) -> Wait {
        wait.or(self.args.number("wait")).map(|wait| (wait - passed).max(0.0))
    }

    /// The lock for one call of a decorated function.
    #[pyo3(signature = (args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "Lock")]
    fn _for_call<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let Names::Of(function) = &this.names else { return Ok(slf.clone()) };
        let names = args::names(&function.bind(py).call(args, Some(kwargs))?)?;
        Bound::new(py, Self::make(py, this.source.clone(), Names::Fixed(names), this.args.clone())?)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        if let Names::Of(function) = &self.names {
            visit.call(function)?;
        }
        visit.call(&self.entries)
    }
}
