//! Python objects that the garbage collector counts as part of their owner, although code without the GIL passes them
//! on.

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTraverseError, PyVisit};

/// An object that its owner shows to the garbage collector, and that other code may own as well.
///
/// The collector counts references of Python. It does not see those of an `Arc`, and clears an object that only
/// unreachable owners have shown. A cleared object is no longer usable: reading a variable of a cleared context crashes
/// the process. Before the collector clears objects, it clears all weak references to them. One of those thus tells
/// whether the object is intact. A finalizer may make it reachable again, and it counts as cleared all the same. See
/// `InternalDocs/garbage_collector.md` of CPython.
pub(crate) struct Traversed {
    object: Py<PyAny>,
    weak: Py<PyWeakrefReference>,
}

impl Traversed {
    /// Takes an object that supports weak references.
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let weak = PyWeakrefReference::new(object)?.unbind();
        Ok(Self { object: object.clone().unbind(), weak })
    }

    /// Returns the object, unless the garbage collector has found it unreachable. From then on, it is not collected.
    pub(super) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.weak.bind(py).upgrade()
    }

    /// For the garbage collector, in the one owner that it counts.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }
}
