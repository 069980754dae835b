//! The two client classes, `Redlock` and `AsyncRedlock`, and the function `configure`. All three have the same
//! options, which are defined once, here.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{self, Anything, Nodes};
use crate::errors::invalid;
use crate::options::{client_args, refuse_client};
use crate::source::Numbered;

/// Returns the value of an option for which None is also a value.
fn given<'a, 'py>(value: &'a Anything, py: Python<'py>) -> Option<&'a Bound<'py, PyAny>> {
    match value {
        Anything::NotGiven => None,
        Anything::Given(value) => Some(value.bind(py)),
    }
}

/// Returns an error if an option is given for a client that exists, because it would have no effect.
fn refuse_options(options: &[(&str, Option<&Bound<'_, PyAny>>)]) -> PyResult<()> {
    let Some((name, _)) = options.iter().find(|(_, value)| value.is_some()) else { return Ok(()) };
    Err(invalid(format!(
        "{name} cannot be set for a client that exists. Pass the URLs of its nodes instead of the client"
    )))
}

/// Generates the classes and `configure` with these options. Each option is a line of the docstring and a parameter
/// instead of `**options`, so that `inspect.signature`, type checkers and editors know it. Core validates the values.
macro_rules! client_functions {
    (
        $($(#[$($about:tt)+])+ $option:ident: $kind:tt,)+;
        $(#[$($about_nullable:tt)+])+ $nullable:ident: $kind_nullable:tt
    ) => {
        /// A client for one set of Redis nodes.
        ///
        /// The client connects at the first use. `with client:` calls `shutdown(0)` at the end.
        ///
        /// `nodes` is the URL of a server, or a list of URLs of independent servers. A URL begins with
        /// `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS), `redis+sentinel://host,host/service`,
        /// `redis+cluster://host,host`, `unix:///path` or `memory://[name]`. Times are seconds or timedelta.
        ///
        $($(#[$($about)+])+)+
        $(#[$($about_nullable)+])+
        ///
        /// Raises InvalidOption for an invalid value.
        ///
        ///     >>> with redlock.Redlock(["memory://a", "memory://b", "memory://c"], key_prefix="app:") as client:
        ///     ...     client.lock("job").key
        ///     'app:job'
        #[pyclass(frozen, weakref, subclass, module = "redlock")]
        pub(crate) struct Redlock {
            pub(crate) client: Numbered,
        }

        #[pymethods]
        impl Redlock {
            #[new]
            #[pyo3(signature = (
                nodes: "str | list[str] | tuple[str, ...]" = Nodes::NotGiven,
                *args: "typing.Never",
                $($option: $kind = None,)+
                $nullable: $kind_nullable = Anything::NotGiven,
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn new(
                py: Python<'_>,
                nodes: Nodes<'_>,
                args: &Bound<'_, PyTuple>,
                $($option: Option<&Bound<'_, PyAny>>,)+
                $nullable: Anything,
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Self> {
                refuse_client("Redlock()", args, kwargs)?;
                let (options, kept) = client_args(&[
                    $((stringify!($option), $option),)+
                    (stringify!($nullable), given(&$nullable, py)),
                ])?;
                Ok(Self { client: Numbered::make(py, args::nodes(&nodes)?, options, kept)? })
            }
        }

        /// A client whose methods are awaited, for asyncio, trio and anyio. Its options are those of `Redlock`.
        ///
        /// The client connects at the first use. `async with client:` calls `shutdown(0)` at its end.
        ///
        /// `nodes` is the URL of a server, or a list of URLs of independent servers. A URL begins with
        /// `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS), `redis+sentinel://host,host/service`,
        /// `redis+cluster://host,host`, `unix:///path` or `memory://[name]`. Times are seconds or timedelta.
        ///
        $($(#[$($about)+])+)+
        $(#[$($about_nullable)+])+
        ///
        /// Raises InvalidOption for an invalid value.
        ///
        ///     >>> async with redlock.AsyncRedlock("memory://", key_prefix="app:") as client:
        ///     ...     async with client.lock("job") as lease:
        ///     ...         lease.key
        ///     'app:job'
        #[pyclass(frozen, weakref, subclass, module = "redlock")]
        pub(crate) struct AsyncRedlock {
            pub(crate) client: Py<Redlock>,
        }

        #[pymethods]
        impl AsyncRedlock {
            #[new]
            #[pyo3(signature = (
                nodes: "str | list[str] | tuple[str, ...]" = Nodes::NotGiven,
                *args: "typing.Never",
                $($option: $kind = None,)+
                $nullable: $kind_nullable = Anything::NotGiven,
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn new(
                py: Python<'_>,
                nodes: Nodes<'_>,
                args: &Bound<'_, PyTuple>,
                $($option: Option<&Bound<'_, PyAny>>,)+
                $nullable: Anything,
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Self> {
                refuse_client("AsyncRedlock()", args, kwargs)?;
                let options = [
                    $((stringify!($option), $option),)+
                    (stringify!($nullable), given(&$nullable, py)),
                ];
                // `redlock.testing` makes a subclass over a client that exists.
                if let Nodes::Given(nodes) = &nodes
                    && let Ok(client) = nodes.cast::<Redlock>()
                {
                    refuse_options(&options)?;
                    return Ok(Self { client: client.clone().unbind() });
                }
                let (options, kept) = client_args(&options)?;
                let client = Numbered::make(py, args::nodes(&nodes)?, options, kept)?;
                Ok(Self { client: Py::new(py, Redlock { client })? })
            }
        }

        /// Configures the default client and returns it.
        ///
        /// Without this call, the default client uses REDLOCK_NODES, then REDIS_URL, then redis://127.0.0.1:6379.
        ///
        /// The options are those of `Redlock`. Raises InvalidOption for an invalid value. Also raises it if the default
        /// client is already in use, unless `replace` is true.
        ///
        ///     >>> client = redlock.configure(["memory://"], replace=True)
        ///     >>> redlock.lock("job").inspect().nodes[0].url
        ///     'memory://'
        #[pyfunction]
        #[pyo3(signature = (
            nodes: "str | list[str] | tuple[str, ...]" = Nodes::NotGiven,
            *args: "typing.Never",
            replace: "bool | None" = None,
            $($option: $kind = None,)+
            $nullable: $kind_nullable = Anything::NotGiven,
            **kwargs: "typing.Never"
        ))]
        #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
        pub(crate) fn configure(
            py: Python<'_>,
            nodes: Nodes<'_>,
            args: &Bound<'_, PyTuple>,
            replace: Option<&Bound<'_, PyAny>>,
            $($option: Option<&Bound<'_, PyAny>>,)+
            $nullable: Anything,
            kwargs: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Redlock> {
            refuse_client("configure()", args, kwargs)?;
            let replace = args::switch("replace", replace)?.unwrap_or_default();
            let (options, kept) = client_args(&[
                $((stringify!($option), $option),)+
                (stringify!($nullable), given(&$nullable, py)),
            ])?;
            let client = Numbered::make(py, args::nodes(&nodes)?, options, kept)?;
            client.configure(py, replace)?;
            Ok(Redlock { client })
        }
    };
}

client_functions! {
    /// - key_prefix: Prefix of every key. Default `lock:`. With an empty prefix, keys may clash with those of other
    ///   libraries.
    key_prefix: "str | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default min(1, ttl / 5), with `fsync`
    ///   min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - connect_timeout: Timeout for connecting to one node, in seconds. Includes the name lookup, TCP, TLS and login.
    ///   Default 5.
    connect_timeout: "float | datetime.timedelta | None",
    /// - restart_guard: With several nodes, a node that started less than this many seconds ago does not vote on new
    ///   locks. No ttl may exceed it. Use the same value on every client. 0 turns it off. Default 60 with
    ///   several nodes, otherwise 0.
    restart_guard: "float | datetime.timedelta | None",
    /// - min_replicas: Number of replicas that must confirm a grant or renewal before the vote of their node counts
    ///   (WAIT). Default 0.
    min_replicas: "int | None",
    /// - fsync: Whether a grant or renewal must be on disk before it counts (WAITAOF). With `appendfsync
    ///   everysec`, this may take two seconds. Default False.
    fsync: "bool | None",
    /// - tls_ca: Certificates of CAs and servers to trust for `rediss://`, as the path of a PEM file or as its bytes.
    ///   Default the system's CAs.
    tls_ca: "str | os.PathLike[str] | bytes | None",
    /// - tls_cert: The client's certificate chain, as the path of a PEM file or as its bytes. Requires `tls_key`.
    ///   Default None.
    tls_cert: "str | os.PathLike[str] | bytes | None",
    /// - tls_key: The private key of `tls_cert`, as the path of a PEM file or as its bytes. Default None.
    tls_key: "str | os.PathLike[str] | bytes | None",
    /// - tls_server_name: Name that the server's certificate must contain. Default the URL's host.
    tls_server_name: "str | None",
    /// - tls_verify: Whether to verify the server's certificate. Default True. With False, any server is accepted and
    ///   receives the password. Use False only on an isolated network.
    tls_verify: "bool | None",
    /// - client_name: Name of the connections in the server's CLIENT LIST and log. Default `redlock`.
    client_name: "str | None",
    /// - label: Label of the locks that set none, which other clients show as the holder. True writes the host and the
    ///   process. Default None.
    label: "str | bool | None",
    /// - credentials: Callback that returns a password, (user, password) or (user, password, lifetime in seconds). It
    ///   is called on a separate thread at each connect, and again before the lifetime ends. Default the URL's user and
    ///   password.
    credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None",
    /// - address_map: Where to connect to servers of `redis+sentinel://` and `redis+cluster://` that announce other
    ///   addresses, such as behind NAT or Docker. A mapping such as {"10.0.0.1:6379": "127.0.0.1:7001"}, or a function
    ///   that gets a host and a port and returns (host, port), on a separate thread at each connect. Addresses in URLs
    ///   stay as they are. Default None.
    address_map: "collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None",;
    /// - unavailable_after: Maximum time in seconds without replies from a quorum of nodes, for an acquire without a
    ///   `wait`. It then raises QuorumUnavailable. None sets no limit. Default 10.
    unavailable_after: "float | datetime.timedelta | None"
}
