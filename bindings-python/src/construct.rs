//! The client's two classes, `Redlock` and `AsyncRedlock`, and the function `configure`. All three have the same options,
//! which are defined once, here.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{self, Anything, Nodes};
use crate::options::{client_args, refuse_client};
use crate::source::Numbered;

/// What was given for an option of which None is a value.
fn given<'a, 'py>(value: &'a Anything, py: Python<'py>) -> Option<&'a Bound<'py, PyAny>> {
    match value {
        Anything::NotGiven => None,
        Anything::Given(value) => Some(value.bind(py)),
    }
}

/// Writes the classes and `configure` with these options, each a line of the docstring and a parameter: no `**options`,
/// so that `inspect.signature`, type checkers and editors know them. What an option takes and does is core's table's to
/// know.
macro_rules! client_functions {
    (
        $($(#[$($about:tt)+])+ $option:ident: $kind:tt,)+;
        $(#[$($about_nullable:tt)+])+ $nullable:ident: $kind_nullable:tt
    ) => {
        /// The client: the nodes of one lock space, and what its locks have in common.
        ///
        /// Nothing connects here. `with client:` ends in `shutdown(0)`.
        ///
        /// `nodes` is one URL or several, of independent servers: `redis://[user:password@]host[:port][/db]`, `rediss://`
        /// (TLS), `redis+sentinel://host,host/service`, `redis+cluster://host,host`, `unix:///path`, `memory://[name]`. Times are seconds or timedelta.
        ///
        $($(#[$($about)+])+)+
        $(#[$($about_nullable)+])+
        ///
        /// Raises InvalidOption for a value that breaks a rule.
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
                Ok(Self { client: Numbered::make(py, args::nodes(&nodes)?, (options, kept))? })
            }
        }

        /// A client whose methods are awaited, for asyncio, trio and anyio. Its options are those of `Redlock`.
        ///
        /// The client connects at the first use. `async with client:` calls `shutdown(0)` at its end.
        ///
        /// `nodes` is the URL of a server, or a list of URLs of independent servers: `redis://[user:password@]host[:port][/db]`,
        /// `rediss://` (TLS), `redis+sentinel://host,host/service`, `redis+cluster://host,host`, `unix:///path`,
        /// `memory://[name]`. Times are seconds or timedelta.
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
                // `redlock.testing` makes a subclass over a client that exists.
                if let Nodes::Given(nodes) = &nodes
                    && let Ok(client) = nodes.cast::<Redlock>()
                {
                    return Ok(Self { client: client.clone().unbind() });
                }
                let (options, kept) = client_args(&[
                    $((stringify!($option), $option),)+
                    (stringify!($nullable), given(&$nullable, py)),
                ])?;
                let client = Numbered::make(py, args::nodes(&nodes)?, (options, kept))?;
                Ok(Self { client: Py::new(py, Redlock { client })? })
            }
        }

        /// Chooses the default client, and returns it: without it, REDLOCK_NODES, else REDIS_URL, else
        /// redis://127.0.0.1:6379.
        ///
        /// The options are those of `Redlock`. Raises InvalidOption for a value that breaks a rule, and once the default
        /// client is in use, unless `replace` is true.
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
            let client = Numbered::make(py, args::nodes(&nodes)?, (options, kept))?;
            client.configure(py, replace)?;
            Ok(Redlock { client })
        }
    };
}

client_functions! {
    /// - key_prefix: goes before every name; default `lock:`. An empty one shares keys with other libraries
    key_prefix: "str | None",
    /// - node_timeout: how long to wait for one node's answer; default min(1, ttl / 5)
    node_timeout: "float | datetime.timedelta | None",
    /// - connect_timeout: how long an attempt to connect may take: name lookup, TCP, TLS and login; default 5
    connect_timeout: "float | datetime.timedelta | None",
    /// - restart_guard: over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same
    ///   on every client; 0: no guard; default 60
    restart_guard: "float | datetime.timedelta | None",
    /// - min_replicas: so many replicas of a node must have a grant or an extension before it counts (WAIT); default 0
    min_replicas: "int | None",
    /// - fsync: whether a grant or an extension must be on disk before it counts (WAITAOF), which may take a second then;
    ///   default False
    fsync: "bool | None",
    /// - scripts: whether locks are asked for by scripts (EVALSHA); default: but for releases where the server has DELIFEQ
    ///   (Valkey 9), which costs it less. False needs DELIFEQ, or DELEX (Redis 8.4), one name per lock and no fencing
    scripts: "bool | None",
    /// - tls_ca: for `rediss://`, a PEM file of whom to trust, by its path or as its bytes; default: the system's trust
    tls_ca: "str | os.PathLike[str] | bytes | None",
    /// - tls_cert: PEM of the client's certificate chain, where the server asks for one; with tls_key
    tls_cert: "str | os.PathLike[str] | bytes | None",
    /// - tls_key: PEM of the certificate's private key
    tls_key: "str | os.PathLike[str] | bytes | None",
    /// - tls_server_name: the name that the server's certificate must carry; default the URL's host
    tls_server_name: "str | None",
    /// - tls_verify: whether the server must prove who it is; default True. With False whoever answers is believed, and
    ///   hears the password: only for a network that nobody else is in
    tls_verify: "bool | None",
    /// - client_name: what the connections are called in the server's CLIENT LIST and log; default `redlock`
    client_name: "str | None",
    /// - credentials: a function that gives a password, (user, password) or (user, password, lifetime in seconds); asked
    ///   at each connect and, on the open connection, before the lifetime ends. It runs on a thread of its own
    credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None",;
    /// - unavailable_after: how long an acquire without a `wait` goes on while no quorum of nodes replies. Then it raises
    ///   QuorumUnavailable. None never gives up; default 10
    unavailable_after: "float | datetime.timedelta | None"
}
