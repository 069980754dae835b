//! The default client, which module-level locks look up at each acquire.

use std::env::VarError;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::{ClientArgs, Unit};

use crate::args::{self, lock_args, refuse};
use crate::client::{
    CLIENT_OPTIONS, LOCK_OPTIONS, Numbered, Redlock, Source, client_args, connect, names,
};
use crate::error::{check, invalid};
use crate::lock::Lock;
use crate::runtime::lock as locked;

struct Chosen {
    client: Numbered,
    used: bool,
}

static DEFAULT: Mutex<Option<Chosen>> = Mutex::new(None);

pub(crate) fn client(py: Python<'_>) -> PyResult<Numbered> {
    if let Some(chosen) = locked(&DEFAULT).as_mut() {
        chosen.used = true;
        return Ok(chosen.client.clone());
    }
    let nodes = redlock::ffi::default_nodes(set("REDLOCK_NODES")?, set("REDIS_URL")?);
    let nodes = check(py, nodes)?;
    let client = connect(py, nodes, &ClientArgs::of_client(Unit::Seconds))?;
    let nodes = client.1.nodes().join(" ");
    let mut default = locked(&DEFAULT);
    if default.is_none() {
        tracing::info!(target: "redlock", "the default client's nodes: {nodes}");
        *default = Some(Chosen { client, used: true });
    }
    drop(default);
    self::client(py)
}

/// An environment variable that is no text is a mistake, and not the same as none.
fn set(name: &str) -> PyResult<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(invalid(format!("{name} is not UTF-8: it must be URLs")))
        }
    }
}

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
    refuse("lock()", LOCK_OPTIONS, args, kwargs)?;
    let options = lock_args(ttl, wait, renew, max_hold, node_timeout, fencing)?;
    Lock::make(py, Source::Default, names(name)?, options)
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
    refuse("configure()", CLIENT_OPTIONS, args, kwargs)?;
    let replace = args::switch("replace", replace)?.unwrap_or_default();
    let tls = args::tls(tls_ca, tls_cert, tls_key, tls_server_name)?;
    let options = client_args(key_prefix, node_timeout, restart_guard, tls)?;
    let client = connect(py, args::nodes(nodes)?, &options)?;
    let mut default = locked(&DEFAULT);
    if default.as_ref().is_some_and(|chosen| chosen.used) && !replace {
        return Err(invalid(
            "the default client is in use already: configure() it before, or give replace=True",
        ));
    }
    let old = default.replace(Chosen { client: client.clone(), used: false });
    drop(default);
    drop(old);
    tracing::info!(target: "redlock", "the default client's nodes: {}", client.1.nodes().join(" "));
    Ok(Redlock { client })
}
