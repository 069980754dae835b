//! The client: arguments in, core's client called, objects out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::TlsOptions;
use redlock::ffi::{ClientArgs, LockArgs, Unit};

use crate::args::{self, Timeout, lock_args, refuse};
use crate::asking::warn_of_loop;
use crate::default;
use crate::error::check;
use crate::lease::{Lease, conclude};
use crate::lock::{Lock, Names};
use crate::registry;
use crate::runtime::mailbox::submit;
use crate::runtime::{dispatch, wait};

pub(crate) const LOCK_OPTIONS: &str = "ttl=, wait=, renew=, max_hold=, node_timeout=, fencing=";
pub(crate) const CLIENT_OPTIONS: &str =
    "key_prefix=, node_timeout=, restart_guard=, tls_ca=, tls_cert=, tls_key=, tls_server_name=";

/// Core's client under a number, by which leases know whose they are.
#[derive(Clone)]
pub(crate) struct Numbered(u64, pub(crate) redlock::Redlock);

/// Where a lock finds its client.
#[derive(Clone)]
pub(crate) enum Source {
    Client(Numbered),
    Default,
}

impl Source {
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<(u64, redlock::Redlock)> {
        let Numbered(number, client) = match self {
            Self::Client(client) => client.clone(),
            Self::Default => default::client(py)?,
        };
        Ok((number, client))
    }

    /// A client to check options by: looking at the default one would choose it.
    pub(crate) fn checker(&self, py: Python<'_>) -> PyResult<redlock::Redlock> {
        match self {
            Self::Client(client) => Ok(client.1.clone()),
            Self::Default => {
                let nothing = vec!["memory://".to_owned()];
                check(py, redlock::ffi::client(nothing, &ClientArgs::of_client(Unit::Seconds)))
            }
        }
    }
}

pub(crate) fn connect(py: Python<'_>, nodes: Vec<String>, args: &ClientArgs) -> PyResult<Numbered> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    dispatch::start(py)?;
    let client = check(py, redlock::ffi::client(nodes, args))?;
    Ok(Numbered(NUMBER.fetch_add(1, Ordering::Relaxed), client))
}

pub(crate) fn client_args(
    key_prefix: Option<&Bound<'_, PyAny>>,
    node_timeout: Option<&Bound<'_, PyAny>>,
    restart_guard: Option<&Bound<'_, PyAny>>,
    tls: TlsOptions,
) -> PyResult<ClientArgs> {
    let key_prefix = args::text("key_prefix", key_prefix)?;
    let node_timeout = args::seconds("node_timeout", node_timeout)?;
    let restart_guard = args::seconds("restart_guard", restart_guard)?;
    Ok(ClientArgs::of_client(Unit::Seconds)
        .with("key_prefix", key_prefix)
        .with("node_timeout", node_timeout)
        .with("restart_guard", restart_guard)
        .with("tls_ca", tls.ca)
        .with("tls_cert", tls.cert)
        .with("tls_key", tls.key)
        .with("tls_server_name", tls.server_name))
}

pub(crate) fn names(name: &Bound<'_, PyAny>) -> PyResult<Names> {
    if args::is_function(name) {
        return Ok(Names::Of(name.clone().unbind()));
    }
    args::names(name).map(Names::Fixed)
}

/// The client: the nodes of one lock space, and what its locks have in common.
///
/// Nothing connects here. `with client:` and `async with client:` end in `shutdown(0)`.
///
/// `nodes` is one URL or several, of independent servers: `redis://[user:password@]host[:port][/db]`, `rediss://`
/// (TLS), `unix:///path`, `memory://[name]`. Times are seconds or timedelta.
///
/// - key_prefix: goes before every name; default `lock:`. An empty one shares keys with other libraries
/// - node_timeout: how long to wait for one node's answer; default min(1, ttl / 5)
/// - restart_guard: over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same
///   on every client; 0: no guard; default 60
/// - tls_ca, tls_cert, tls_key: for `rediss://`, PEM files of whom to trust, of the client's certificate and its key;
///   default: the system's trust, no certificate
/// - tls_server_name: the name that the server's certificate must carry; default the URL's host
///
/// Raises InvalidOption for a value that breaks a rule.
///
///     >>> with redlock.Redlock(["memory://a", "memory://b", "memory://c"], key_prefix="app:") as client:
///     ...     client.lock("job").key
///     'app:job'
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Redlock {
    pub(crate) client: Numbered,
}

#[pymethods]
impl Redlock {
    #[new]
    #[pyo3(signature = (
        nodes: "str | list[str] | tuple[str, ...]",
        *args: "typing.Never",
        key_prefix: "str | None" = None,
        node_timeout: "float | datetime.timedelta | None" = None,
        restart_guard: "float | datetime.timedelta | None" = None,
        tls_ca: "str | os.PathLike[str] | None" = None,
        tls_cert: "str | os.PathLike[str] | None" = None,
        tls_key: "str | os.PathLike[str] | None" = None,
        tls_server_name: "str | None" = None,
        **kwargs: "typing.Never"
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
    fn new(
        py: Python<'_>,
        nodes: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        key_prefix: Option<&Bound<'_, PyAny>>,
        node_timeout: Option<&Bound<'_, PyAny>>,
        restart_guard: Option<&Bound<'_, PyAny>>,
        tls_ca: Option<&Bound<'_, PyAny>>,
        tls_cert: Option<&Bound<'_, PyAny>>,
        tls_key: Option<&Bound<'_, PyAny>>,
        tls_server_name: Option<&Bound<'_, PyAny>>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        refuse("Redlock()", CLIENT_OPTIONS, args, kwargs)?;
        let tls = args::tls(tls_ca, tls_cert, tls_key, tls_server_name)?;
        let options = client_args(key_prefix, node_timeout, restart_guard, tls)?;
        Ok(Self { client: connect(py, args::nodes(nodes)?, &options)? })
    }

    /// Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. Times are seconds or timedelta.
    ///
    /// As a decorator's, the name may be a function of the decorated function's arguments.
    ///
    /// - ttl: how long the lease lives without renewal; at least 0.1, default 10
    /// - wait: how long an acquire may wait for somebody else; 0: one round; default None: for ever
    /// - renew: whether to extend at a third of the ttl until released; default True
    /// - max_hold: upper bound on the whole hold, at which the lease is lost; default None: no bound
    /// - node_timeout: how long to wait for one node's answer; default the client's, else min(1, ttl / 5)
    /// - fencing: whether to ask for a fencing token, `lease.fencing_token`; default False
    ///
    /// Raises InvalidOption for a value that breaks a rule.
    ///
    ///     >>> lock = client.lock("job", ttl=10, wait=5)
    ///     >>> with lock as lease:
    ///     ...     lease.remaining > 9
    ///     True
    #[pyo3(signature = (
        name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
        *args: "typing.Never",
        ttl: "float | datetime.timedelta | None" = None,
        wait: "float | datetime.timedelta | None" = None,
        renew: "bool | None" = None,
        max_hold: "float | datetime.timedelta | None" = None,
        node_timeout: "float | datetime.timedelta | None" = None,
        fencing: "bool | None" = None,
        **kwargs: "typing.Never"
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
    fn lock(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        ttl: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        renew: Option<&Bound<'_, PyAny>>,
        max_hold: Option<&Bound<'_, PyAny>>,
        node_timeout: Option<&Bound<'_, PyAny>>,
        fencing: Option<&Bound<'_, PyAny>>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Lock> {
        refuse("lock()", LOCK_OPTIONS, args, kwargs)?;
        let options = lock_args(ttl, wait, renew, max_hold, node_timeout, fencing)?;
        Lock::make(py, Source::Client(self.client.clone()), names(name)?, options)
    }

    /// Continues the lease that another process holds under this token, with this `ttl` (default 10 seconds) from now on:
    /// `lock(name).attach(token)`, which says more. Raises LockLost if it is not held.
    ///
    ///     >>> theirs = client.attach("job", lease.token, ttl=5)
    #[pyo3(signature = (
        name: "str | list[str] | tuple[str, ...]",
        token: "str",
        *,
        ttl: "float | datetime.timedelta | None" = None
    ))]
    fn attach(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Lease>> {
        self.plain(py, name, ttl)?.attach(py, token)
    }

    /// `attach` for asyncio.
    ///
    ///     >>> theirs = await client.aattach("job", lease.token)
    #[pyo3(signature = (
        name: "str | list[str] | tuple[str, ...]",
        token: "str",
        *,
        ttl: "float | datetime.timedelta | None" = None
    ) -> "collections.abc.Awaitable[Lease]")]
    fn aattach<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        token: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.plain(py, name, ttl)?.aattach(py, token)
    }

    /// Deletes the lock whoever holds it; True if there was something to delete. Its holder is told of the loss.
    ///
    /// Raises QuorumUnavailable when too few nodes answered.
    ///
    ///     >>> client.force_release("job")
    ///     True
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...]"))]
    fn force_release(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        check(py, wait(py, self.client.1.force_release(args::names(name)?), |_| Ok(()))?)
    }

    /// `force_release` for asyncio.
    ///
    ///     >>> await client.aforce_release("job")
    ///     True
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...]") -> "collections.abc.Awaitable[bool]")]
    fn aforce_release<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sent = self.client.1.force_release(args::names(name)?);
        submit(py, sent, |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    /// The leases that this client holds now.
    ///
    ///     >>> [lease.key for lease in client.leases()]
    ///     ['lock:job']
    fn leases(&self, py: Python<'_>) -> Vec<Py<Lease>> {
        registry::of_client(py, self.client.0)
    }

    /// Gives back all that this client holds; says how many. Whoever still runs under one is told: LockLost, reason
    /// `released`. Raises the first error once all were tried.
    ///
    ///     >>> client.release_all()
    ///     1
    fn release_all(&self, py: Python<'_>) -> PyResult<usize> {
        check(py, wait(py, self.client.1.release_all(), |_| Ok(()))?)
    }

    /// `release_all` for asyncio.
    ///
    ///     >>> await client.arelease_all()
    ///     1
    #[pyo3(signature = () -> "collections.abc.Awaitable[int]")]
    fn arelease_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        submit(py, self.client.1.release_all(), |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Ends it in order: acquires fail with ClientClosed from now on, running leases have `timeout` seconds (default 10) to
    /// be released, and what is left is given back. Whoever still runs under one is told: LockLost, reason `released`. Says
    /// how many leases it had to give back.
    ///
    /// Raises QuorumUnavailable when too few nodes confirmed: those keys expire by themselves. It is closed all the same.
    ///
    ///     >>> client.shutdown(timeout=0)            # a lease is still held
    ///     1
    #[pyo3(signature = (timeout: "float | datetime.timedelta" = Timeout::DEFAULT) -> "int")]
    fn shutdown(&self, py: Python<'_>, timeout: Timeout) -> PyResult<usize> {
        let ended = self.client.1.shutdown(timeout.0);
        check(
            py,
            wait(py, ended, |py| warn_of_loop(py, "'await client.ashutdown()'", "shutdown()"))?,
        )
    }

    /// `shutdown` for asyncio: begins at the call.
    ///
    ///     >>> await client.ashutdown(timeout=0)
    ///     1
    #[pyo3(signature = (timeout: "float | datetime.timedelta" = Timeout::DEFAULT) -> "collections.abc.Awaitable[int]")]
    fn ashutdown<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Bound<'py, PyAny>> {
        submit(py, self.client.1.shutdown(timeout.0), |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Ends it at once: waiting acquires fail with ClientClosed, its leases are lost, and their keys expire.
    ///
    ///     >>> client.close()
    ///     >>> client.lock("job").acquire()
    ///     Traceback (most recent call last):
    ///     redlock.ClientClosed: lock:job: the client is closed
    fn close(&self) {
        self.client.1.close();
    }

    /// The nodes' URLs, without user and password.
    ///
    ///     >>> redlock.Redlock("redis://user:secret@127.0.0.1:6379/1").nodes
    ///     ['redis://127.0.0.1:6379/1']
    #[getter]
    fn nodes(&self) -> Vec<String> {
        self.client.1.nodes()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        match wait(py, self.client.1.shutdown(Duration::ZERO), |_| Ok(()))? {
            Ok(_) => Ok(()),
            Err(problem) => conclude(py, &problem, error),
        }
    }

    #[pyo3(signature = () -> "collections.abc.Coroutine[typing.Any, typing.Any, Redlock]")]
    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        crate::lease::scope(slf.py())?.call_method1("enter_client", (slf,))
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "collections.abc.Coroutine[typing.Any, typing.Any, None]")]
    fn __aexit__<'py>(
        slf: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        trace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (kind, trace);
        crate::lease::scope(slf.py())?.call_method1("leave_client", (slf, error))
    }

    /// Sends what `with` does at its end and does not wait; for `_scope`.
    fn _let_go(&self) {
        let ended = self.client.1.shutdown(Duration::ZERO);
        // Sent here: the leases' objects may be gone before the background thread comes to it.
        let sent = self.client.1.release_all();
        redlock::ffi::spawn(async move {
            drop(sent.await);
            drop(ended.await);
        })
        .detach();
    }

    fn __repr__(&self) -> String {
        format!("<redlock.Redlock {}>", self.client.1.nodes().join(" "))
    }
}

impl Redlock {
    fn plain(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let options = LockArgs::of_lock(Unit::Seconds).with("ttl", args::seconds("ttl", ttl)?);
        Lock::make(
            py,
            Source::Client(self.client.clone()),
            Names::Fixed(args::names(name)?),
            options,
        )
    }
}
