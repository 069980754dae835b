//! The leases of this client on a lock, for which another caller of the client may wait.

use std::sync::Arc;

use crate::lease::LeaseHandle;
use crate::lock::Lock;
use crate::options::lock::Request;
use crate::primitive::Kind;

impl Lock {
    /// The leases of this client on this lock, once for each of its keys that they have.
    ///
    /// They are found by key, so the cost does not depend on the number of leases.
    pub(crate) fn held(&self) -> Vec<LeaseHandle> {
        let Some(running) = self.engine.running() else { return Vec::new() };
        let (registry, keys) = (&running.leases().registry, self.keys());
        // At once, because a semaphore may have many.
        let held: Vec<_> = registry.held(keys).collect();
        let on = held.into_iter().flat_map(|at| registry.on(&keys[at]));
        on.filter(|state| state.is_held()).map(LeaseHandle).collect()
    }

    /// Whether one of this lock's own leases is held. Another lock of the client may have acquired the others.
    pub(crate) fn is_held(&self) -> bool {
        let ours = |request: &Arc<Request>| {
            self.held().iter().any(|lease| Arc::ptr_eq(&lease.0.request, request))
        };
        self.request().is_ok_and(|request| ours(&request))
    }

    /// Whether an acquire of this lock waits for one of these, which are some of [`Self::held`].
    pub(crate) fn waits_for(&self, held: &[LeaseHandle]) -> bool {
        match self.options.kind {
            Kind::Semaphore { limit } => {
                held.len() + self.options.permits as usize > limit as usize
            }
            Kind::Mutex | Kind::ReadWrite(_) => !held.is_empty(),
        }
    }
}
