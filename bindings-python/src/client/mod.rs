//! The client: arguments in, core's client called, objects out.

mod asyncio;
mod ending;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args;
use crate::errors::check;
use crate::lease::Lease;
use crate::lock::{Lock, Names};
use crate::options::{client_args, lock_args, refuse_client};
use crate::registry;
use crate::runtime::wait::wait;
use crate::source::{Numbered, Source};

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
        refuse_client("Redlock()", args, kwargs)?;
        let given = [
            ("key_prefix", key_prefix),
            ("node_timeout", node_timeout),
            ("restart_guard", restart_guard),
            ("tls_ca", tls_ca),
            ("tls_cert", tls_cert),
            ("tls_key", tls_key),
            ("tls_server_name", tls_server_name),
        ];
        let options = client_args(&given)?;
        Ok(Self { client: Numbered::make(py, args::nodes(nodes)?, &options)? })
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

    /// Deletes the lock whoever holds it; True if there was something to delete. Its holder is told of the loss.
    ///
    /// Raises QuorumUnavailable when too few nodes answered.
    ///
    ///     >>> client.force_release("job")
    ///     True
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...]"))]
    fn force_release(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        check(py, wait(py, self.client.client.force_release(args::names(name)?), |_| Ok(()))?)
    }

    /// The leases that this client holds now.
    ///
    ///     >>> [lease.key for lease in client.leases()]
    ///     ['lock:job']
    fn leases(&self, py: Python<'_>) -> Vec<Py<Lease>> {
        let leases = registry::of_client(py, self.client.number);
        leases.into_iter().filter_map(|lease| Some(lease.cast_into().ok()?.unbind())).collect()
    }

    /// Gives back all that this client holds; says how many. Whoever still runs under one is told: LockLost, reason
    /// `released`. Raises the first error once all were tried.
    ///
    ///     >>> client.release_all()
    ///     1
    fn release_all(&self, py: Python<'_>) -> PyResult<usize> {
        check(py, wait(py, self.client.client.release_all(), |_| Ok(()))?)
    }

    /// The nodes' URLs, without user and password.
    ///
    ///     >>> redlock.Redlock("redis://user:secret@127.0.0.1:6379/1").nodes
    ///     ['redis://127.0.0.1:6379/1']
    #[getter]
    fn nodes(&self) -> Vec<String> {
        self.client.client.nodes()
    }

    fn __repr__(&self) -> String {
        format!("<redlock.Redlock {}>", self.client.client.nodes().join(" "))
    }
}

impl Redlock {
    fn plain(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let options = lock_args(&[("ttl", ttl)])?;
        Lock::make(
            py,
            Source::Client(self.client.clone()),
            Names::Fixed(args::names(name)?),
            options,
        )
    }
}
