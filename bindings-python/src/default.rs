//! The default client's functions: `lock`, which looks it up at each acquire, and `configure`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args;
use crate::client::Redlock;
use crate::lock::{Lock, Names};
use crate::options::{client_args, lock_args, refuse_client, refuse_lock};
use crate::source::{Numbered, Source};

/// Describes a lock of the default client, which is looked up at each acquire: see `configure`.
///
/// One name, or several as one; times are seconds or timedelta. As a decorator's, the name may be a function of the
/// decorated function's arguments.
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
///     >>> with redlock.lock("job", ttl=10) as lease:
///     ...     lease.held
///     True
#[pyfunction]
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
pub(crate) fn lock(
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
    refuse_lock("lock()", args, kwargs)?;
    let given = [
        ("ttl", ttl),
        ("wait", wait),
        ("renew", renew),
        ("max_hold", max_hold),
        ("node_timeout", node_timeout),
        ("fencing", fencing),
    ];
    let options = lock_args(&given)?;
    Lock::make(py, Source::Default, Names::given(name)?, options)
}

/// Chooses the default client, and returns it: without it, REDLOCK_NODES, else REDIS_URL, else redis://127.0.0.1:6379.
///
/// The options are those of `Redlock`. Raises InvalidOption for a value that breaks a rule, and once the default client is
/// in use, unless `replace` is true.
///
///     >>> client = redlock.configure(["memory://"], replace=True)
///     >>> redlock.lock("job").inspect().nodes[0].url
///     'memory://'
#[pyfunction]
#[pyo3(signature = (
    nodes: "str | list[str] | tuple[str, ...]",
    *args: "typing.Never",
    replace: "bool | None" = None,
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
pub(crate) fn configure(
    py: Python<'_>,
    nodes: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    replace: Option<&Bound<'_, PyAny>>,
    key_prefix: Option<&Bound<'_, PyAny>>,
    node_timeout: Option<&Bound<'_, PyAny>>,
    restart_guard: Option<&Bound<'_, PyAny>>,
    tls_ca: Option<&Bound<'_, PyAny>>,
    tls_cert: Option<&Bound<'_, PyAny>>,
    tls_key: Option<&Bound<'_, PyAny>>,
    tls_server_name: Option<&Bound<'_, PyAny>>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Redlock> {
    refuse_client("configure()", args, kwargs)?;
    let replace = args::switch("replace", replace)?.unwrap_or_default();
    let given = [
        ("key_prefix", key_prefix),
        ("node_timeout", node_timeout),
        ("restart_guard", restart_guard),
        ("tls_ca", tls_ca),
        ("tls_cert", tls_cert),
        ("tls_key", tls_key),
        ("tls_server_name", tls_server_name),
    ];
    let client = Numbered::make(py, args::nodes(nodes)?, &client_args(&given)?)?;
    client.configure(py, replace)?;
    Ok(Redlock { client })
}
