//! What this JavaScript thread holds: leases by the number of the call that acquired them.
//!
//! A number, not an object of its own: making and collecting a wrapped object costs more than the rest of a release.
//! Numbers whose lease is over stay unknown, and answer as a lease that is not held.

use std::cell::RefCell;
use std::collections::HashMap;

use redlock::LeaseHandle;
use redlock::ffi::{self, Job};

use crate::number::Number;

struct Entry {
    lease: LeaseHandle,
    /// Waits for the loss, once somebody asked to be told; ends with the entry.
    watch: Option<Job>,
}

/// The leases, by their numbers.
#[derive(Default)]
pub(crate) struct Held(RefCell<HashMap<Number, Entry>>);

impl Held {
    /// This one too.
    pub(crate) fn insert(&self, id: Number, lease: LeaseHandle) {
        self.0.borrow_mut().insert(id, Entry { lease, watch: None });
    }

    /// This one no longer, whatever became of it.
    pub(crate) fn remove(&self, id: Number) -> Option<LeaseHandle> {
        self.0.borrow_mut().remove(&id).map(|entry| entry.lease)
    }

    /// The lease of this number.
    pub(crate) fn get(&self, id: Number) -> Option<LeaseHandle> {
        self.ask(id, LeaseHandle::clone)
    }

    /// What the lease of this number says.
    pub(crate) fn ask<T>(&self, id: Number, question: impl FnOnce(&LeaseHandle) -> T) -> Option<T> {
        self.0.borrow().get(&id).map(|entry| question(&entry.lease))
    }

    /// Keeps what waits for the loss of this lease, for as long as the lease is held here.
    pub(crate) fn watch(&self, id: Number, watch: Job) {
        if let Some(entry) = self.0.borrow_mut().get_mut(&id) {
            entry.watch = Some(watch);
        }
    }

    /// The numbers under which these leases are known here.
    pub(crate) fn ids_of(&self, leases: &[LeaseHandle]) -> Vec<Number> {
        let held = self.0.borrow();
        let known = held.iter().map(|(id, entry)| (ffi::identity(&entry.lease), *id));
        let known: HashMap<_, _> = known.collect();
        leases.iter().filter_map(|lease| known.get(&ffi::identity(lease)).copied()).collect()
    }
}

impl Drop for Held {
    /// The environment ended, not the work: what was held lives out its ttl.
    fn drop(&mut self) {
        for entry in self.0.get_mut().values() {
            entry.lease.detach();
        }
    }
}
