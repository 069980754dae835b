//! The classes of bodies that run under a lock: one that runs once, and one that leads. Here is what both have in
//! common.

use pyo3::prelude::*;

use crate::call_site::CallSite;
use crate::lease::Lease;
use crate::lock::Lock;

/// Generates the methods of a class. `$call` makes its objects, and `$example` shows the key.
macro_rules! class_methods {
    ($class:ident, $call:literal, $example:literal) => {
        crate::unsupported::no_constructor!($class, concat!($call, " makes one"));

        #[pymethods]
        impl $class {
            #[doc = concat!("The Redis key.\n\n    >>> ", $example)]
            #[getter]
            fn key(&self, py: Python<'_>) -> PyResult<String> {
                self.lock.get().key(py)
            }

            /// The lock under which the body runs.
            #[getter]
            fn _lock(&self, py: Python<'_>) -> Py<Lock> {
                self.lock.clone_ref(py)
            }

            fn __repr__(&self) -> String {
                self.lock.get().shown(stringify!($class))
            }

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                visit.call(&self.lock)
            }
        }

        impl FromLock for $class {
            fn from_lock(py: Python<'_>, lock: Lock) -> PyResult<Self> {
                Ok(Self { lock: Py::new(py, lock)? })
            }
        }
    };
}

pub(crate) use class_methods;

#[pymethods]
impl Lock {
    /// Acquires the lock for a body, for the code at `site`. Returns None if a run is remembered. `instead` is what to
    /// use in a running event loop.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]", instead: "str") -> "Lease | None")]
    fn _acquire(
        &self,
        py: Python<'_>,
        site: CallSite,
        instead: &str,
    ) -> PyResult<Option<Py<Lease>>> {
        self.warn_of_loop(py, instead)?;
        self.acquired(py, site, Some(None))
    }
}
