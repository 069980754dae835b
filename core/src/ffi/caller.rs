//! Who holds a lease, and since which line of their program: what other languages know and only messages show.
//!
//! Nothing here has a part in who holds a lock: a binding that says nothing loses a few words of its messages.

use std::any::Any;
use std::sync::Arc;

use crate::lease::{CallSite, LeaseHandle, Owner};
use crate::lock::Lock;

/// Notes where the lease was acquired, as its language writes it. The first note stands.
pub fn note_call_site(lease: &LeaseHandle, call_site: impl CallSite) {
    // Whoever was first has noted the same.
    let _ = lease.0.call_site.set(Box::new(call_site));
}

/// The note of this type that was made of where the lease was acquired.
pub fn call_site<T: CallSite>(lease: &LeaseHandle) -> Option<&T> {
    let noted: &dyn Any = &**lease.0.call_site.get()?;
    noted.downcast_ref()
}

/// Notes who acquired the lease: an acquire of the same owner that waits for it says so. The first note stands.
pub fn note_owner(lease: &LeaseHandle, owner: Owner) {
    let _ = lease.0.owner.set(owner);
}

/// A lease of this lock's client on one of its keys, whose noted owner is this one.
pub fn held_by(lock: &Lock, owner: impl Fn() -> Owner) -> Option<LeaseHandle> {
    let is_theirs = |lease: &LeaseHandle| lease.0.owner.get() == Some(&owner());
    lock.held().into_iter().find(is_theirs)
}

/// `, acquired at CALL SITE`, if that was noted: for messages.
pub fn acquired_at(lease: &LeaseHandle) -> String {
    lease.0.acquired_at()
}

/// Which lease it is, among those that this process holds now: handles on one lease answer the same.
///
/// An address: it may be another lease's once this one's last handle is gone.
pub fn identity(lease: &LeaseHandle) -> usize {
    Arc::as_ptr(&lease.0).addr()
}
