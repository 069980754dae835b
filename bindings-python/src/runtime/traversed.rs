//! Python objects that the garbage collector counts as part of their owner, although code without the GIL passes them
//! on.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTraverseError, PyVisit};

use crate::once_cell::Once;

/// An object that its owner shows to the garbage collector, and that other code may own as well.
///
/// The collector counts references of Python. It does not see those of an `Arc`, and clears an object that only
/// unreachable owners have shown. A cleared object is no longer usable: reading a variable of a cleared context crashes
/// the process. Before the collector clears objects, it clears all weak references to them. One of those thus tells
/// whether the object is intact. See `InternalDocs/garbage_collector.md` of CPython.
///
/// The collector asks the owner several times, at last right before it clears. If the owner does not show the object
/// then, the object stays intact, although its weak references may be gone.
pub(crate) struct Traversed {
    object: Py<PyAny>,
    weak: Py<PyWeakrefReference>,
    /// Whether the owner showed it to the collector at last.
    is_shown: AtomicBool,
}

impl Traversed {
    /// Takes an object that supports weak references.
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let weak = PyWeakrefReference::new(object)?.unbind();
        Ok(Self { object: object.clone().unbind(), weak, is_shown: AtomicBool::new(false) })
    }

    /// Returns the object, unless the garbage collector has cleared it or is about to. It does not clear what this
    /// returns.
    pub(super) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let hidden = || {
            let is_shown = self.is_shown.load(Ordering::Relaxed);
            (!is_shown).then(|| self.object.bind(py).clone())
        };
        self.weak.bind(py).upgrade().or_else(hidden)
    }

    /// Like [`Self::get`], also if a finalizer has made the object reachable again. Its weak references are gone then.
    ///
    /// If the collector is about to clear it right now, it is returned all the same. This needs an end of another object
    /// during that moment that lets this thread run.
    pub(super) fn get_revived<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static REFERENTS: Once<Py<PyAny>> = Once::new();
        if let Some(object) = self.get(py) {
            return Ok(Some(object));
        }
        let object = self.object.bind(py).clone();
        // A cleared object refers to nothing.
        let referents = REFERENTS.import(py, "gc", "get_referents")?.call1((&object,))?;
        Ok(referents.is_truthy()?.then_some(object))
    }

    /// For the garbage collector, in the one owner that it counts. Without `visit`, it does not see the object.
    pub(crate) fn traverse(&self, visit: Option<&PyVisit<'_>>) -> Result<(), PyTraverseError> {
        self.is_shown.store(visit.is_some(), Ordering::Relaxed);
        visit.map_or(Ok(()), |visit| visit.call(&self.object))
    }
}
