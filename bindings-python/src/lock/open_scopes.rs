//! Tracks the open `with` statements, with the lease and the frame of each.
//!
//! This works for threads, tasks, generators that change threads, and exits out of order. With an `ExitStack`, the exit
//! has another frame than the entry. If several statements are open, the right one is found by its object, or else by
//! its thread or task.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::call_site;
use crate::lease::Lease;
use crate::owner;
use crate::runtime::lock;

/// An open `with` statement.
pub(crate) struct OpenScope {
    id: u64,
    frame: Py<PyAny>,
    /// The lease that it holds. `None` once another caller is to release it.
    pub(crate) lease: Option<Py<Lease>>,
    /// The object that cancels the task of an `async with`.
    pub(crate) body: Option<Py<PyAny>>,
}

/// The open `with` statements of one lock.
#[derive(Default)]
pub(super) struct OpenScopes(Mutex<Vec<OpenScope>>);

impl OpenScopes {
    /// Records that the `with` statement in this frame holds the lease. Returns its number.
    pub(super) fn add(
        &self,
        frame: &Bound<'_, PyAny>,
        lease: Py<Lease>,
        body: Option<Py<PyAny>>,
    ) -> u64 {
        static ID: AtomicU64 = AtomicU64::new(1);
        let id = ID.fetch_add(1, Ordering::Relaxed);
        lease.get().set_entered(Some(frame.clone().unbind()));
        let frame = frame.clone().unbind();
        lock(&self.0).push(OpenScope { id, frame, lease: Some(lease), body });
        id
    }

    /// Removes the statement of this frame.
    pub(super) fn take(&self, frame: &Bound<'_, PyAny>) -> Option<OpenScope> {
        // No bytecode runs here, so no signal handler comes between this and the release. Without a Python frame, the
        // statement of another thread would match.
        if frame.is_none() {
            return None;
        }
        self.remove(|scope| scope.frame.is(frame))
    }

    /// Removes the statement that ends in this frame, which is not its own. That is the only one, the only one of the
    /// object whose method runs in the frame, or the newest one of this thread or task. Otherwise returns the number of
    /// open statements as an error.
    pub(super) fn take_elsewhere(
        &self,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<Result<OpenScope, usize>> {
        let (found, many) = self.left_elsewhere(frame)?;
        Ok(found.and_then(|id| self.remove_id(id)).ok_or(many))
    }

    /// Removes the statement with this number.
    pub(super) fn remove_id(&self, id: u64) -> Option<OpenScope> {
        self.remove(|scope| scope.id == id)
    }

    /// Removes the statement of this lease.
    pub(super) fn remove_lease(&self, lease: &Bound<'_, Lease>) -> Option<OpenScope> {
        self.remove(|scope| scope.lease.as_ref().is_some_and(|held| held.is(lease)))
    }

    fn remove(&self, is: impl Fn(&OpenScope) -> bool) -> Option<OpenScope> {
        let mut scopes = lock(&self.0);
        let at = scopes.iter().rposition(is)?;
        Some(scopes.remove(at))
    }

    /// Returns the statement that ends in this frame, and the number of open ones.
    fn left_elsewhere(&self, frame: &Bound<'_, PyAny>) -> PyResult<(Option<u64>, usize)> {
        let py = frame.py();
        let all: Vec<_> = {
            let scopes = lock(&self.0);
            let owner = |scope: &OpenScope| scope.lease.as_ref().map(|lease| lease.get().owner());
            let known = |scope: &OpenScope| (scope.id, owner(scope), scope.frame.clone_ref(py));
            scopes.iter().rev().map(known).collect()
        };
        if let [(id, ..)] = all[..] {
            return Ok((Some(id), 1));
        }
        // A statement that never ends, because its lease was lost and its task is gone, does not count here.
        if let Some(object) = call_site::object(frame)? {
            let mut same = Vec::new();
            for (id, _, entered) in &all {
                if call_site::object(entered.bind(py))?.is_some_and(|other| other.is(&object)) {
                    same.push(*id);
                }
            }
            if let [id] = same[..] {
                return Ok((Some(id), all.len()));
            }
        }
        let (current, mut newest) = (owner::current(py)?, None);
        for (id, _, frame) in all.iter().filter(|(_, owner, _)| *owner == Some(current)) {
            // It was entered by an ExitStack, so the exit has another frame.
            if call_site::module(frame.bind(py))?.eq("contextlib")? {
                return Ok((Some(*id), all.len()));
            }
            newest = newest.or(Some(*id));
        }
        Ok((newest, all.len()))
    }

    /// The `with` statement that holds this lease no longer releases it.
    pub(super) fn hand_over(&self, lease: &Bound<'_, Lease>) {
        let is = |held: &Option<Py<Lease>>| held.as_ref().is_some_and(|held| held.is(lease));
        let held = lock(&self.0)
            .iter_mut()
            .rfind(|scope| is(&scope.lease))
            .and_then(|scope| scope.lease.take());
        drop(held);
        lease.get().set_entered(None);
    }

    /// For the garbage collector.
    pub(super) fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        let Ok(scopes) = self.0.try_lock() else { return Ok(()) };
        scopes.iter().try_for_each(|scope| {
            visit.call(&scope.frame)?;
            visit.call(&scope.lease)?;
            visit.call(&scope.body)
        })
    }

    /// For the garbage collector: a frame may own the lock that keeps it.
    pub(super) fn clear(&self) {
        let scopes = std::mem::take(&mut *lock(&self.0));
        drop(scopes);
    }
}
