//! What the leases of one client share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::registry::Registry;
use super::state::LeaseState;
use crate::clock::Clock;
use crate::fairness::Fairness;
use crate::node::Watch;
use crate::telemetry::{Counts, Logged, Throttle};

/// What all leases of a client in this process share.
///
/// Not the nodes: an ended lease must not keep their connections open.
pub(crate) struct Leases {
    pub(crate) clock: Arc<dyn Clock>,
    /// Reports changes of keys to local waiters.
    pub(crate) watch: Arc<Watch>,
    /// The leases. The monitor shares only this field, so that it ends when no object is left that could change a
    /// lease.
    pub(crate) registry: Arc<Registry<LeaseState>>,
    /// Counts how leases ended.
    pub(crate) counts: Arc<Counts>,
    /// Tracks which keys other clients want.
    pub(crate) fairness: Fairness,
    /// Tracks the warnings about long holds.
    pub(crate) long: Logged,
    /// Tracks the warnings about names that may be mistakes.
    pub(crate) doubtful: Logged,
    /// The longest TTL requested so far, in seconds. Only a longer one logs a warning again.
    pub(crate) longest: AtomicU64,
    /// Limits the log records about releases that no quorum confirmed.
    pub(crate) unconfirmed: Throttle,
}
