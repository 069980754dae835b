//! The acquires of the last batch of outcomes.
//!
//! JavaScript passes their leases to the callers one after the other. That may take long, so a lease may end first. Its
//! acquire is then repeated.

use std::cell::RefCell;

use redlock::ffi::Acquire;

use crate::number::Number;

/// The acquires by the numbers of their leases.
#[derive(Default)]
pub(super) struct Delivered(RefCell<Vec<(Number, Acquire)>>);

impl Delivered {
    /// Begins a batch.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Adds the acquire that granted this lease.
    pub(super) fn insert(&self, lease: Number, acquire: Acquire) {
        self.0.borrow_mut().push((lease, acquire));
    }

    /// Whether an acquire of the batch granted this lease.
    pub(super) fn contains(&self, lease: Number) -> bool {
        self.0.borrow().iter().any(|(number, _)| *number == lease)
    }

    /// Removes and returns the acquire that granted this lease.
    pub(super) fn take(&self, lease: Number) -> Option<Acquire> {
        let mut acquires = self.0.borrow_mut();
        let at = acquires.iter().position(|(number, _)| *number == lease)?;
        Some(acquires.swap_remove(at).1)
    }
}
