//! `configure`, which chooses the default client. The `lock` that looks it up at each acquire is in `describe`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args;
use crate::client::Redlock;
use crate::options::{client_args, refuse_client};
use crate::source::Numbered;

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
