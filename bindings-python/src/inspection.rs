//! The holders of locks, as plain data.

use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A snapshot of the holder of a lock, as reported by each node.
///
///     >>> found = client.lock("job").inspect()
///     >>> found.held, found.remaining, found.nodes[0].state
///     (False, None, 'free')
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct Inspection {
    /// Whether one owner holds the lock on a quorum of nodes. For a semaphore, whether no permit is free.
    pub(crate) held: bool,
    /// Which side holds a read/write lock: `read` or `write`. None if it is free. For a lock, `read` if readers hold
    /// it, else None.
    pub(crate) mode: Option<String>,
    /// How many permits of a semaphore are not free. For a lock, how many of its keys.
    pub(crate) taken: usize,
    /// How many permits the semaphore has. For a lock, how many keys.
    pub(crate) limit: usize,
    /// Remaining time in seconds. None if the lock is free or has no known end. If `held` is false, how long the key
    /// stays because of `min_hold`. For a semaphore, the shortest time if no permit is free.
    pub(crate) remaining: Option<f64>,
    /// The holder's label. None if the lock is free or its holder has none.
    pub(crate) label: Option<String>,
    /// The reply of each node for each key.
    pub(crate) nodes: Vec<Py<NodeInspection>>,
}

/// The reply of one node for one key.
///
///     >>> with client.lock("job"):
///     ...     node = client.lock("job").inspect().nodes[0]
///     >>> node.url, node.key, node.state, node.error, len(node.token), node.remaining > 9
///     ('memory://', 'lock:job', 'held', None, 8, True)
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct NodeInspection {
    /// The node's URL, without its password.
    pub(crate) url: String,
    /// The Redis key.
    pub(crate) key: String,
    /// `free`, `held`, `kept` (released, and stays for `min_hold`) or `fault`.
    pub(crate) state: String,
    /// The seconds left. None if the lock is free, the node failed, or the end is unknown.
    pub(crate) remaining: Option<f64>,
    /// The first 8 digits of the owner's token. None if readers share the key, or if it has data of another type.
    pub(crate) token: Option<String>,
    /// The owner's label. For `kept`, that of the previous owner. None if it has none.
    pub(crate) label: Option<String>,
    /// The error text of the node, or why it grants no new lease yet (`restart_guard`).
    pub(crate) error: Option<String>,
}

#[pymethods]
impl Inspection {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.bind(py)).collect();
        let nodes = python(py, PyList::new(py, nodes)?)?;
        let (held, remaining) = (python(py, self.held)?, python(py, self.remaining)?);
        let (taken, limit, label) = (self.taken, self.limit, python(py, &self.label)?);
        let mode = python(py, &self.mode)?;
        Ok(format!(
            "Inspection(held={held}, mode={mode}, taken={taken}, limit={limit}, remaining={remaining}, label={label}, nodes={nodes})"
        ))
    }
}

#[pymethods]
impl NodeInspection {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "NodeInspection(url={}, key={}, state={}, remaining={}, token={}, label={}, \
             error={})",
            python(py, &self.url)?,
            python(py, &self.key)?,
            python(py, &self.state)?,
            python(py, self.remaining)?,
            python(py, &self.token)?,
            python(py, &self.label)?,
            python(py, &self.error)?
        ))
    }
}

/// Formats a value as Python does.
pub(crate) fn python<'py>(py: Python<'py>, value: impl IntoPyObject<'py>) -> PyResult<String> {
    Ok(value.into_bound_py_any(py)?.repr()?.to_string_lossy().into_owned())
}

impl Inspection {
    /// Converts the result of the core.
    pub(crate) fn make(py: Python<'_>, found: redlock::Inspection) -> PyResult<Py<Self>> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let nodes = found.nodes.into_iter().map(|node| {
            let redlock::NodeInspection { url, key, state, remaining, token, label, error, .. } =
                node;
            let state = state.as_str().to_owned();
            Py::new(
                py,
                NodeInspection {
                    url,
                    key,
                    state,
                    remaining: seconds(remaining),
                    token,
                    label,
                    error,
                },
            )
        });
        let nodes = nodes.collect::<PyResult<_>>()?;
        let redlock::Inspection { held, mode, taken, limit, remaining, label, .. } = found;
        let mode = mode.map(str::to_owned);
        Py::new(py, Self { held, mode, taken, limit, remaining: seconds(remaining), label, nodes })
    }
}
