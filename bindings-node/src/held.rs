//! The leases of one JavaScript thread, by the number of the call that acquired them.
//!
//! JavaScript uses numbers, because creating and collecting a wrapped object costs more than the rest of a release. A
//! number whose lease has ended is unknown, and is treated as a lease that is not held.

use std::cell::RefCell;
use std::collections::HashMap;

use redlock::LeaseHandle;
use redlock::ffi::{self, Job};

use crate::number::Number;

struct HeldLease {
    lease: LeaseHandle,
    /// Waits for the loss, if JavaScript watches the lease. Ends with the entry.
    watch: Option<Job>,
}

/// The leases by number.
#[derive(Default)]
pub(crate) struct Held(RefCell<HashMap<Number, HeldLease>>);

impl Held {
    /// Adds a lease.
    pub(crate) fn insert(&self, id: Number, lease: LeaseHandle) {
        self.0.borrow_mut().insert(id, HeldLease { lease, watch: None });
    }

    /// Removes a lease that has ended or is no longer used here.
    pub(crate) fn remove(&self, id: Number) -> Option<LeaseHandle> {
        self.0.borrow_mut().remove(&id).map(|entry| entry.lease)
    }

    /// Returns the lease with this number.
    pub(crate) fn get(&self, id: Number) -> Option<LeaseHandle> {
        self.with_lease(id, LeaseHandle::clone)
    }

    /// Reads a value of the lease with this number.
    pub(crate) fn with_lease<T>(
        &self,
        id: Number,
        read_value: impl FnOnce(&LeaseHandle) -> T,
    ) -> Option<T> {
        self.0.borrow().get(&id).map(|entry| read_value(&entry.lease))
    }

    /// Stores the job that waits for the loss of this lease, for as long as the lease is held here.
    pub(crate) fn watch(&self, id: Number, watch: Job) {
        if let Some(entry) = self.0.borrow_mut().get_mut(&id) {
            entry.watch = Some(watch);
        }
    }

    /// Returns the numbers of these leases.
    pub(crate) fn ids_of(&self, leases: &[LeaseHandle]) -> Vec<Number> {
        let held = self.0.borrow();
        let known = held.iter().map(|(id, entry)| (ffi::identity(&entry.lease), *id));
        let known: HashMap<_, _> = known.collect();
        leases.iter().filter_map(|lease| known.get(&ffi::identity(lease)).copied()).collect()
    }
}

impl Drop for Held {
    /// Detaches the leases, so that their keys expire when their TTL ends. The environment has ended, but not the work.
    fn drop(&mut self) {
        for entry in self.0.get_mut().values() {
            entry.lease.detach();
        }
    }
}
