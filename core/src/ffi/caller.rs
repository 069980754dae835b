//! The owner and the call site of a lease, which the bindings know and only messages show.
//!
//! Neither affects which client holds a lock. A binding that sets neither only has shorter messages.

use std::any::Any;
use std::sync::Arc;

use crate::lease::{CallSite, LeaseHandle, Owner};
use crate::lock::Lock;

/// Records where the lease was acquired, in the notation of the language. Later calls change nothing.
pub fn note_call_site(lease: &LeaseHandle, call_site: impl CallSite) {
    // An earlier call recorded the same call site.
    let _ = lease.0.call_site.set(Box::new(call_site));
}

/// The recorded call site, if it has this type.
pub fn call_site<T: CallSite>(lease: &LeaseHandle) -> Option<&T> {
    let noted: &dyn Any = &**lease.0.call_site.get()?;
    noted.downcast_ref()
}

/// Records the owner of the lease. If the same owner then waits for the lease, the error reports it. Later calls change
/// nothing.
pub fn note_owner(lease: &LeaseHandle, owner: Owner) {
    let _ = lease.0.owner.set(owner);
}

/// A lease of this lock's client on one of the lock's keys, with this recorded owner.
pub fn held_by(lock: &Lock, owner: impl Fn() -> Owner) -> Option<LeaseHandle> {
    let is_theirs = |lease: &LeaseHandle| lease.0.owner.get() == Some(&owner());
    lock.held().into_iter().find(is_theirs)
}

/// `, acquired at CALL SITE` for messages, or an empty string if no call site was recorded.
pub fn acquired_at(lease: &LeaseHandle) -> String {
    lease.0.acquired_at()
}

/// Identifies the lease among those that this process holds now. Handles on one lease return the same value.
///
/// It is an address, so another lease may have it after the last handle is dropped.
pub fn identity(lease: &LeaseHandle) -> usize {
    Arc::as_ptr(&lease.0).addr()
}
