//! What all acquires of a client in this process share.

use std::sync::Arc;

use super::contention::Contention;
use super::queue::Queue;
use crate::lease::Leases;

/// What all acquires of a client in this process share.
pub(crate) struct Acquirer {
    /// What they make, and the nodes they ask.
    pub(crate) leases: Arc<Leases>,
    /// Who of this process is first.
    /// Shared, as each caller's place refers to it.
    pub(super) queue: Arc<Queue>,
    /// How long rounds take, and what others want.
    pub(super) contention: Contention,
}

impl Acquirer {
    /// Nobody waits yet, and nothing was learnt.
    pub(crate) fn new(leases: Arc<Leases>) -> Self {
        let contention = Contention::over(leases.nodes.list.len());
        Self { leases, queue: Arc::default(), contention }
    }

    /// How many acquires are under way.
    pub(crate) fn callers(&self) -> usize {
        self.queue.callers()
    }
}
