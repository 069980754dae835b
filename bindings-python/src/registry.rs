//! Maps held leases to their Python objects, to list the leases of a client.

use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::LeaseHandle;

use crate::runtime::{ByNumber, lock};

/// A lease and its Python object.
struct Entry {
    client: u64,
    handle: LeaseHandle,
    object: Py<PyWeakrefReference>,
}

/// The held leases by number, so that acquire and release stay fast with thousands of leases.
///
/// Locked with the GIL held and never across a call into Python: see `runtime`.
static HELD: LazyLock<Mutex<ByNumber<Entry>>> = LazyLock::new(Mutex::default);

/// Adds a lease. The reference to `object` is weak.
pub(crate) fn add(
    id: u64,
    client: u64,
    handle: &LeaseHandle,
    object: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let object = PyWeakrefReference::new(object)?.unbind();
    let entry = Entry { client, handle: handle.clone(), object };
    lock(&HELD).insert(id, entry);
    Ok(())
}

/// Removes a lease that ended or whose object is gone.
pub(crate) fn remove(id: u64) {
    let removed = lock(&HELD).remove(&id);
    drop(removed);
}

/// Returns the objects of a client's held leases.
pub(crate) fn of_client(py: Python<'_>, client: u64) -> Vec<Bound<'_, PyAny>> {
    let live = |entry: &&Entry| entry.client == client && entry.handle.is_held();
    let found: Vec<_> = {
        let held = lock(&HELD);
        held.values().filter(live).map(|entry| entry.object.clone_ref(py)).collect()
    };
    found.iter().filter_map(|object| object.bind(py).upgrade()).collect()
}
