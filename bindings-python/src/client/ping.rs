//! Whether the nodes would grant locks: the call and its result, as plain data.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Redlock;
use crate::args::Timeout;
use crate::errors::check;
use crate::inspection::python;
use crate::runtime::begin_call;
use crate::runtime::spawn::spawn;
use crate::runtime::wait::wait;

/// Whether the nodes would grant locks now, as each of them replied.
///
///     >>> found = client.ping()
///     >>> found.ready, found.ready_in, found.nodes[0].error
///     (True, 0.0, None)
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct Ping {
    /// Whether a quorum of the nodes would grant a lock now.
    pub(crate) ready: bool,
    /// Seconds until a quorum would, if only `restart_guard` prevents it. 0 if it would now. None if too few nodes
    /// replied.
    pub(crate) ready_in: Option<f64>,
    /// The reply of each node, in the order of `client.nodes`.
    pub(crate) nodes: Vec<Py<NodePing>>,
}

/// The reply of one node to a ping.
///
///     >>> node = client.ping().nodes[0]
///     >>> node.url, node.ready, node.ready_in, node.error, node.latency < 1
///     ('memory://', True, 0.0, None, True)
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct NodePing {
    /// The node's URL, without its password.
    pub(crate) url: String,
    /// Whether it would grant a lock now.
    pub(crate) ready: bool,
    /// Seconds until it would, because of `restart_guard`. 0 if it would now. None if that is unknown.
    pub(crate) ready_in: Option<f64>,
    /// Seconds from the call to the reply. The first one includes connecting. None if it did not reply, or with an
    /// error.
    pub(crate) latency: Option<f64>,
    /// Why it would grant no lock.
    pub(crate) error: Option<String>,
}

#[pymethods]
impl Ping {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.bind(py)).collect();
        Ok(format!(
            "Ping(ready={}, ready_in={}, nodes={})",
            python(py, self.ready)?,
            python(py, self.ready_in)?,
            python(py, PyList::new(py, nodes)?)?
        ))
    }
}

#[pymethods]
impl NodePing {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "NodePing(url={}, ready={}, ready_in={}, latency={}, error={})",
            python(py, &self.url)?,
            python(py, self.ready)?,
            python(py, self.ready_in)?,
            python(py, self.latency)?,
            python(py, &self.error)?
        ))
    }
}

impl Ping {
    /// Converts the result of the core.
    fn make(py: Python<'_>, found: redlock::Ping) -> PyResult<Py<Self>> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let nodes = found.nodes.into_iter().map(|node| {
            let redlock::NodePing { url, ready, ready_in, latency, error, .. } = node;
            let (ready_in, latency) = (seconds(ready_in), seconds(latency));
            Py::new(py, NodePing { url, ready, ready_in, latency, error })
        });
        let nodes = nodes.collect::<PyResult<_>>()?;
        Py::new(py, Self { ready: found.ready, ready_in: seconds(found.ready_in), nodes })
    }
}

#[pymethods]
impl Redlock {
    /// Asks each node whether it would grant a lock now, for readiness probes. No lock is acquired.
    ///
    /// It sends a write without effect, which a replica, a server that is loading, and one without memory or disk
    /// refuse. Nodes that fail are part of the result, and no error.
    ///
    /// Args:
    ///     timeout: Maximum time to wait for all replies, in seconds or as a timedelta. Default 1.
    ///
    /// Returns:
    ///     A `Ping`, whose `ready` is True if a quorum of the nodes would grant a lock.
    ///
    /// Raises:
    ///     ClientClosed: The client was closed.
    ///     InvalidOption: `timeout` is 0 or invalid.
    ///
    /// Example:
    ///     >>> client.ping(timeout=0.5).ready
    ///     True
    #[pyo3(
        signature = (timeout: "float | datetime.timedelta" = Timeout::OF_PING),
        text_signature = "($self, timeout=1)"
    )]
    fn ping(&self, py: Python<'_>, timeout: Timeout) -> PyResult<Py<Ping>> {
        let found = wait(py, begin_call(|| self.client.client.ping(timeout.0))?, |_| Ok(()))?;
        Ping::make(py, check(py, found)?)
    }

    /// Sends the commands of `ping`.
    #[pyo3(signature = (timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[Ping]")]
    fn _ping<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Bound<'py, PyAny>> {
        let sent = begin_call(|| self.client.client.ping(timeout.0))?;
        spawn(py, sent, |py, done| Ok(Ping::make(py, check(py, done)?)?.into_any()))
    }
}
