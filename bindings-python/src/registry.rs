//! Which leases are held by whom, to warn of a lock that waits for itself, and to list a client's leases.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use redlock::LeaseHandle;

use crate::owner::Owner;
use crate::runtime::lock;

/// A lease, and the object for it.
struct Entry {
    id: u64,
    client: u64,
    handle: LeaseHandle,
    object: Py<PyWeakrefReference>,
}

/// Locked with the GIL held and never across a call into Python: see `runtime`.
static HELD: LazyLock<Mutex<HashMap<Owner, Vec<Entry>>>> = LazyLock::new(Mutex::default);

/// From now on the lease is its owner's; `object` is not kept alive by that.
pub(crate) fn add(
    owner: Owner,
    id: u64,
    client: u64,
    handle: &LeaseHandle,
    object: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let object = PyWeakrefReference::new(object)?.unbind();
    let entry = Entry { id, client, handle: handle.clone(), object };
    lock(&HELD).entry(owner).or_default().push(entry);
    Ok(())
}

/// The lease is over, or nobody's any more.
pub(crate) fn remove(owner: Owner, id: u64) {
    let removed = {
        let mut held = lock(&HELD);
        let Some(entries) = held.get_mut(&owner) else { return };
        let Some(at) = entries.iter().position(|entry| entry.id == id) else { return };
        let removed = entries.swap_remove(at);
        if entries.is_empty() {
            held.remove(&owner);
        }
        removed
    };
    drop(removed);
}

/// A live lease of an owner with this client, on one of these keys.
pub(crate) fn own(owner: Owner, client: u64, keys: &[String]) -> Option<LeaseHandle> {
    let held = lock(&HELD);
    let same = |entry: &&Entry| {
        entry.client == client
            && entry.handle.keys().iter().any(|key| keys.contains(key))
            && entry.handle.held()
    };
    held.get(&owner)?.iter().find(same).map(|entry| entry.handle.clone())
}

/// The objects of a client's live leases.
pub(crate) fn of_client(py: Python<'_>, client: u64) -> Vec<Bound<'_, PyAny>> {
    let live = |entry: &&Entry| entry.client == client && entry.handle.held();
    let found: Vec<_> = {
        let held = lock(&HELD);
        held.values().flatten().filter(live).map(|entry| entry.object.clone_ref(py)).collect()
    };
    found.iter().filter_map(|object| object.bind(py).upgrade()).collect()
}
