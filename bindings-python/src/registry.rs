//! Maps held leases to their Python objects, to list the leases of a client.

use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::LeaseHandle;
use redlock::ffi::identity;

use crate::runtime::{ByNumber, lock};

/// The objects of the held leases by the identity of their handle, so that acquire and release stay fast with thousands
/// of leases. The references are weak. An entry is removed while its handle exists, so no other lease has its identity.
///
/// Locked with the GIL held and never across a call into Python: see `runtime`.
static HELD: LazyLock<Mutex<ByNumber<Py<PyWeakrefReference>>>> = LazyLock::new(Mutex::default);

/// Adds a lease.
pub(crate) fn add(hold: &LeaseHandle, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let object = PyWeakrefReference::new(object)?.unbind();
    lock(&HELD).insert(identity(hold) as u64, object);
    Ok(())
}

/// Removes a lease that ended or whose object is gone.
pub(crate) fn remove(hold: &LeaseHandle) {
    let removed = lock(&HELD).remove(&(identity(hold) as u64));
    drop(removed);
}

/// Returns the objects of these leases.
pub(crate) fn objects<'py>(py: Python<'py>, leases: &[LeaseHandle]) -> Vec<Bound<'py, PyAny>> {
    let found: Vec<_> = {
        let held = lock(&HELD);
        let known = leases.iter().filter_map(|lease| held.get(&(identity(lease) as u64)));
        known.map(|object| object.clone_ref(py)).collect()
    };
    found.iter().filter_map(|object| object.bind(py).upgrade()).collect()
}
