//! The calls of the program's functions that have not returned.

use std::cell::RefCell;

use redlock::ffi::{Answer, Credentials, HostPort};
use slab::Slab;

/// A call of a function of the program that has not returned.
pub enum CallbackRequest {
    /// Of `credentials`.
    Credentials(Answer<Credentials>),
    /// Of `addressMap`, with the announced address.
    Address(HostPort, Answer<HostPort>),
}

/// The requests, by the number that JavaScript returns with the result.
#[derive(Default)]
pub(crate) struct CallbackRequests(RefCell<Slab<CallbackRequest>>);

impl CallbackRequests {
    /// Stores a request until its function has returned. Returns its number.
    pub(crate) fn insert(&self, request: CallbackRequest) -> Option<u32> {
        u32::try_from(self.0.borrow_mut().insert(request)).ok()
    }

    /// Removes and returns this request, if core still waits for it.
    pub(crate) fn take(&self, request: u32) -> Option<CallbackRequest> {
        self.0.borrow_mut().try_remove(request as usize)
    }
}
