//! The class `Lock`: converts arguments, starts the futures of the core, and returns a `Lease`.

pub(crate) mod acquire;
pub(crate) mod async_lock;
mod asyncio;
mod foreign_methods;
mod methods;

pub(crate) mod exit_stack;
mod open_scopes;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use pyo3::prelude::*;
use redlock::ffi::{self, LockArgs, Unit};

use crate::args::{self, Anything, Wait};
use crate::call_site::CallSite;
use crate::caller::{Caller, warn_of_loop};
use crate::errors::{check, internal, invalid};
use crate::lease::Lease;
use crate::owner;
use crate::runtime::{self, origin};
use crate::source::{ClientSource, Numbered};

use open_scopes::OpenScopes;

/// The names of a lock, or a function that returns them from the arguments of the decorated function.
pub(crate) enum Names {
    /// Fixed names.
    Fixed(Vec<String>),
    /// The names that this function returns for each call.
    Of(Py<PyAny>),
}

impl Names {
    /// Converts one name, several names, or a function.
    pub(crate) fn given(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        if args::is_function(name) {
            return Ok(Self::Of(name.clone().unbind()));
        }
        args::names(name).map(Self::Fixed)
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Fixed(names) => Self::Fixed(names.clone()),
            Self::Of(function) => Self::Of(function.clone_ref(py)),
        }
    }
}

/// A lock on one name, or on several as one. You can reuse it, and share it between threads and tasks.
///
/// `with lock as lease:` and `async with lock as lease:` hold it for the block; `@lock` holds it for each call.
///
///     >>> with client.lock("job", ttl=10) as lease:
///     ...     lease.key
///     'lock:job'
///     >>> @client.lock("report:{user}", wait=0, default=None)
///     ... def report(user): return len(user)
///     >>> report("eve")
///     3
///     >>> with client.lock("report:eve"):
///     ...     print(report("eve"), report("mallory"))
///     None 7
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Lock {
    pub(crate) source: ClientSource,
    names: Names,
    pub(crate) args: LockArgs,
    /// Of a decorator: what a call returns if it cannot acquire the lock.
    default: Option<Py<PyAny>>,
    /// The lock of the core, with the number of its client. The default client may be replaced later.
    core: Mutex<Option<(u64, Arc<redlock::Lock>)>>,
    /// The with statements under way.
    open_scopes: OpenScopes,
}

impl Lock {
    /// Raises InvalidOption for an invalid option here, not at the first acquire.
    pub(crate) fn make(
        py: Python<'_>,
        source: ClientSource,
        names: Names,
        args: LockArgs,
    ) -> PyResult<Self> {
        let core = match &names {
            Names::Fixed(names) => source.check(py, names, &args)?,
            Names::Of(_) => None,
        };
        let (core, open_scopes) = (Mutex::new(core), OpenScopes::default());
        Ok(Self { source, names, args, default: None, core, open_scopes })
    }

    /// Sets what a decorated call returns if it cannot acquire the lock, which can then only decorate functions.
    pub(crate) fn with_default(mut self, default: Anything) -> PyResult<Self> {
        let Anything::Given(default) = default else { return Ok(self) };
        if self.args.number("wait").is_none_or(f64::is_infinite) {
            return Err(invalid(
                "default= needs a finite wait=: otherwise a call waits forever and never returns the default. \
                 wait=0 tries once",
            ));
        }
        self.default = Some(default);
        Ok(self)
    }

    /// What other locks on the same names need.
    pub(crate) fn parts(&self, py: Python<'_>) -> (ClientSource, Names) {
        (self.source.clone(), self.names.clone_ref(py))
    }

    /// The names, unless a function returns them.
    fn fixed_names(&self) -> PyResult<&Vec<String>> {
        match &self.names {
            Names::Fixed(names) => Ok(names),
            Names::Of(_) => Err(invalid(
                "this lock's name is a function of arguments: it can only decorate functions",
            )),
        }
    }

    /// Returns the lock of this client with the names and options of this one.
    pub(crate) fn of_client(
        &self,
        py: Python<'_>,
        client: &redlock::Redlock,
    ) -> PyResult<redlock::Lock> {
        check(py, ffi::lock(client, self.fixed_names()?.clone(), &self.args))
    }

    /// Returns the current client, and the lock of that client.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<(Numbered, Arc<redlock::Lock>)> {
        let names = self.fixed_names()?;
        if self.default.is_some() {
            return Err(invalid(
                "this lock has default=, so it can only decorate functions: try_acquire() returns None instead",
            ));
        }
        let source = self.source.client(py)?;
        if let Some((of, lock)) = &*runtime::lock(&self.core)
            && *of == source.number
        {
            let lock = Arc::clone(lock);
            return Ok((source, lock));
        }
        let lock = Arc::new(check(py, ffi::lock(&source.client, names.clone(), &self.args))?);
        let old = runtime::lock(&self.core).replace((source.number, Arc::clone(&lock)));
        drop(old);
        Ok((source, lock))
    }

    /// The current caller and the lock that it tries to acquire.
    fn caller(&self, py: Python<'_>, mut call_site: CallSite) -> PyResult<Caller> {
        let (Numbered { kept, recipe, .. }, lock) = self.core(py)?;
        let (owner, began) = (owner::current(py)?, Instant::now());
        let context = origin::capture(py)?;
        call_site.context = context.as_ref().map(Arc::downgrade);
        Ok(Caller { lock, kept, recipe, owner, call_site, context, began })
    }

    /// Begins an acquire within `wait`, or of one round without it. Warns if it would wait for itself.
    fn begin_acquire(
        &self,
        py: Python<'_>,
        call_site: CallSite,
        wait: Option<Wait>,
    ) -> PyResult<(Caller, ffi::Acquire)> {
        let caller = self.caller(py, call_site)?;
        let Some(wait) = wait else {
            let acquire = ffi::Acquire::once(&caller.lock);
            return Ok((caller, acquire));
        };
        let own = Lease::own(py, &caller)?;
        let owner = own.as_ref().map(|_| caller.owner);
        let acquire = check(py, ffi::Acquire::new(&caller.lock, wait, Unit::Seconds, owner))?;
        if let Some(own) = own
            && acquire.may_wait()
        {
            caller.warn_of_own(py, &own)?;
        }
        Ok((caller, acquire))
    }

    /// Waits for the lease, for the code at `call_site`. Returns `None` if an acquire that tries once found the lock
    /// held, or if a run is remembered.
    pub(crate) fn acquired(
        &self,
        py: Python<'_>,
        call_site: CallSite,
        wait: Option<Wait>,
    ) -> PyResult<Option<Py<Lease>>> {
        let (caller, acquire) = self.begin_acquire(py, call_site, wait)?;
        loop {
            let answer = caller.wait(py, acquire.acquire())?;
            if let Some(answer) = acquire.accept(answer) {
                let lease = caller.observed(py, answer)?;
                return lease
                    .map(|lease| Lease::make(py, lease.into_handle(), &caller))
                    .transpose();
            }
        }
    }

    /// Warns if an event loop runs in this thread, even if the acquire would be fast. Called before a command is sent,
    /// because a warning may be raised as an error.
    pub(crate) fn warn_of_loop(&self, py: Python<'_>, instead: &str) -> PyResult<()> {
        warn_of_loop(py, instead, || Ok(self.core(py)?.1.key()))
    }

    /// Like `acquired`, for an acquire that always ends with a lease or an error.
    fn waited_for(&self, py: Python<'_>, call_site: CallSite, wait: Wait) -> PyResult<Py<Lease>> {
        let instead =
            "'async with', 'await lock.as_async().acquire()' or '@lock' over an 'async def'";
        self.warn_of_loop(py, instead)?;
        self.acquired(py, call_site, Some(wait))?.ok_or_else(internal)
    }

    /// Creates the lease object after a successful `attach`.
    fn attached(
        py: Python<'_>,
        granted: Result<redlock::LeaseHandle, redlock::Error>,
        caller: &Caller,
    ) -> PyResult<Py<Lease>> {
        Lease::make_attached(py, check(py, granted)?, caller)
    }
}
