//! The state that all acquires of a client in this process share.

use std::sync::{Arc, Mutex, PoisonError};

use super::queue::Queue;
use crate::clock::Clock;
use crate::lease::Leases;
use crate::telemetry::{Omitted, Throttle};

/// The state that all acquires of a client in this process share.
pub(crate) struct Acquirer {
    /// The leases of the client, and its nodes.
    pub(crate) leases: Arc<Leases>,
    /// The local queue of callers. Shared, because each caller's ticket refers to it.
    pub(super) queue: Arc<Queue>,
    /// Limits the log records about grants that came too late.
    late: Mutex<Throttle>,
}

impl Acquirer {
    /// Creates the shared state without any acquire.
    pub(crate) fn new(leases: Arc<Leases>) -> Self {
        Self { leases, queue: Arc::default(), late: Mutex::default() }
    }

    /// Whether to log that a grant came too late.
    pub(super) fn logs_late_grant(&self) -> Option<Omitted> {
        let now = self.clock().now();
        self.late.lock().unwrap_or_else(PoisonError::into_inner).admit(now)
    }

    /// The client's clock.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.leases.nodes.clock
    }

    /// How many acquires are under way.
    pub(crate) fn callers(&self) -> usize {
        self.queue.callers()
    }

    /// Returns a function that counts the acquires under way, without keeping the queue alive.
    pub(crate) fn callers_if_any(&self) -> impl Fn() -> usize + use<> {
        let queue = Arc::downgrade(&self.queue);
        move || queue.upgrade().map_or(0, |queue| queue.callers())
    }
}
