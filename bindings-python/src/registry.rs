//! Which leases are held by whom, to warn of a lock that waits for itself, and to list a client's leases.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::lease::Lease;
use crate::runtime::{Owner, lock};

type Entry = (u64, Py<PyWeakrefReference>);

/// Locked with the GIL held and never across a call into Python: see `runtime`.
static HELD: LazyLock<Mutex<HashMap<Owner, Vec<Entry>>>> = LazyLock::new(Mutex::default);

pub(crate) fn add(owner: Owner, id: u64, lease: &Bound<'_, Lease>) -> PyResult<()> {
    let weak = PyWeakrefReference::new(lease.as_any())?.unbind();
    lock(&HELD).entry(owner).or_default().push((id, weak));
    Ok(())
}

pub(crate) fn remove(owner: Owner, id: u64) {
    let removed = {
        let mut held = lock(&HELD);
        let Some(entries) = held.get_mut(&owner) else { return };
        let Some(at) = entries.iter().position(|entry| entry.0 == id) else { return };
        let removed = entries.swap_remove(at);
        if entries.is_empty() {
            held.remove(&owner);
        }
        removed
    };
    drop(removed);
}

fn upgrade(py: Python<'_>, found: &[Py<PyWeakrefReference>]) -> Vec<Py<Lease>> {
    let alive = |weak: &Py<PyWeakrefReference>| weak.bind(py).upgrade();
    let leases = found.iter().filter_map(alive).filter_map(|lease| lease.cast_into::<Lease>().ok());
    leases.map(Bound::unbind).filter(|lease| lease.get().hold.held()).collect()
}

/// The live leases of an owner.
pub(crate) fn of_owner(py: Python<'_>, owner: Owner) -> Vec<Py<Lease>> {
    let found: Vec<_> = match lock(&HELD).get(&owner) {
        Some(entries) => entries.iter().map(|entry| entry.1.clone_ref(py)).collect(),
        None => return Vec::new(),
    };
    upgrade(py, &found)
}

/// The live leases of a client.
pub(crate) fn of_client(py: Python<'_>, client: u64) -> Vec<Py<Lease>> {
    let found: Vec<_> = lock(&HELD).values().flatten().map(|entry| entry.1.clone_ref(py)).collect();
    upgrade(py, &found).into_iter().filter(|lease| lease.get().client == client).collect()
}
