//! Tracks the with statements under way, with the lease and the frame of each.
//!
//! This works for threads, tasks, generators that change threads, and exits out of order. If the exit has another frame
//! than the entry (an `ExitStack`), the entry is found by its thread or task.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::call_site;
use crate::lease::Lease;
use crate::owner;
use crate::runtime::lock;

/// One with statement under way.
pub(crate) struct Entry {
    id: u64,
    frame: Py<PyAny>,
    /// The lease that it holds. `None` once another caller is to release it.
    pub(crate) lease: Option<Py<Lease>>,
    /// The object that cancels the task of an `async with`.
    pub(crate) body: Option<Py<PyAny>>,
}

/// The with statements of one lock.
#[derive(Default)]
pub(super) struct Entries(Mutex<Vec<Entry>>);

impl Entries {
    /// Records that the with statement in this frame holds the lease.
    pub(super) fn add(&self, frame: &Bound<'_, PyAny>, lease: Py<Lease>, body: Option<Py<PyAny>>) {
        static ID: AtomicU64 = AtomicU64::new(1);
        let id = ID.fetch_add(1, Ordering::Relaxed);
        lease.get().set_entered(Some(frame.clone().unbind()));
        let frame = frame.clone().unbind();
        lock(&self.0).push(Entry { id, frame, lease: Some(lease), body });
    }

    /// Removes the entry of this frame. Without one, removes the newest entry of this thread or task, or the only
    /// entry. Otherwise returns the number of entries as an error.
    pub(super) fn take(&self, frame: &Bound<'_, PyAny>) -> PyResult<Result<Entry, usize>> {
        // No bytecode runs here, so no signal handler comes between this and the release. Without a Python frame, the
        // entry of another thread would match.
        if !frame.is_none()
            && let Some(entry) = self.remove(|entry| entry.frame.is(frame))
        {
            return Ok(Ok(entry));
        }
        let (found, many) = self.of_owner(frame.py())?;
        Ok(found.and_then(|id| self.remove(|entry| entry.id == id)).ok_or(many))
    }

    fn remove(&self, is: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut entries = lock(&self.0);
        let at = entries.iter().rposition(is)?;
        Some(entries.remove(at))
    }

    /// Returns the entry that this thread or task leaves, and the number of its entries.
    fn of_owner(&self, py: Python<'_>) -> PyResult<(Option<u64>, usize)> {
        let all: Vec<_> = {
            let entries = lock(&self.0);
            let owner = |entry: &Entry| entry.lease.as_ref().map(|lease| lease.get().owner());
            let known = |entry: &Entry| (entry.id, owner(entry), entry.frame.clone_ref(py));
            entries.iter().rev().map(known).collect()
        };
        let (current, mut newest) = (owner::current(py)?, None);
        for (id, _, frame) in all.iter().filter(|(_, owner, _)| *owner == Some(current)) {
            // It was entered by an ExitStack, so the exit has another frame.
            if call_site::module(frame.bind(py))?.eq("contextlib")? {
                return Ok((Some(*id), all.len()));
            }
            newest = newest.or(Some(*id));
        }
        let only = if let [(id, ..)] = all[..] { Some(id) } else { None };
        Ok((newest.or(only), all.len()))
    }

    /// The with statement that holds this lease no longer releases it.
    pub(super) fn hand_over(&self, lease: &Bound<'_, Lease>) {
        let is = |held: &Option<Py<Lease>>| held.as_ref().is_some_and(|held| held.is(lease));
        let held = lock(&self.0)
            .iter_mut()
            .rfind(|entry| is(&entry.lease))
            .and_then(|entry| entry.lease.take());
        drop(held);
        lease.get().set_entered(None);
    }

    /// For the garbage collector.
    pub(super) fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        let Ok(entries) = self.0.try_lock() else { return Ok(()) };
        entries.iter().try_for_each(|entry| {
            visit.call(&entry.frame)?;
            visit.call(&entry.lease)?;
            visit.call(&entry.body)
        })
    }

    /// For the garbage collector: a frame may own the lock that keeps it.
    pub(super) fn clear(&self) {
        let entries = std::mem::take(&mut *lock(&self.0));
        drop(entries);
    }
}
