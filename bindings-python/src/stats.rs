//! Statistics of a client, as plain data.

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// Statistics of a client in this process. Times are in seconds.
///
///     >>> client.stats().granted, client.stats().lost["expired"]
///     (0, 0)
#[pyclass(frozen, get_all, module = "redlock")]
pub(crate) struct Stats {
    /// Acquires that returned a lease.
    granted: u64,
    /// Calls of `try_acquire` that found another holder.
    refused: u64,
    /// Acquires whose `wait` was over.
    timed_out: u64,
    /// Acquires for which too few nodes replied.
    unavailable: u64,
    /// Leases that their owner released.
    released: u64,
    /// Renewals that a quorum confirmed.
    renewed: u64,
    /// Renewals that no quorum confirmed. Each is retried until the lease ends.
    unrenewed: u64,
    /// Lost leases, by reason. Contains every reason. `forked` stays 0, because a forked child does not count the
    /// leases of its parent.
    lost: BTreeMap<&'static str, u64>,
    /// Connections that were opened again after one ended.
    reconnects: u64,
    /// Acquires that are under way now.
    waiting: u64,
    /// Leases that are held now.
    held: u64,
    /// Total time that acquires waited, until the round that granted the lease or until `wait` was over.
    time_waited: f64,
    /// Total time that released and lost leases were held.
    time_held: f64,
}

#[pymethods]
impl Stats {
    fn __repr__(&self) -> String {
        let Self { granted, refused, timed_out, unavailable, released, .. } = self;
        let Self { renewed, unrenewed, reconnects, waiting, held, .. } = self;
        let lost: Vec<_> =
            self.lost.iter().map(|(reason, lost)| format!("'{reason}': {lost}")).collect();
        let (waited, had) = (self.time_waited, self.time_held);
        format!(
            "Stats(granted={granted}, refused={refused}, timed_out={timed_out}, unavailable={unavailable}, \
             released={released}, renewed={renewed}, unrenewed={unrenewed}, lost={{{}}}, reconnects={reconnects}, \
             waiting={waiting}, held={held}, time_waited={waited}, time_held={had})",
            lost.join(", ")
        )
    }
}

impl From<redlock::Stats> for Stats {
    fn from(stats: redlock::Stats) -> Self {
        Self {
            granted: stats.granted,
            refused: stats.refused,
            timed_out: stats.timed_out,
            unavailable: stats.unavailable,
            released: stats.released,
            renewed: stats.renewed,
            unrenewed: stats.unrenewed,
            lost: stats.lost.into_iter().map(|(reason, lost)| (reason.as_str(), lost)).collect(),
            reconnects: stats.reconnects,
            waiting: stats.waiting,
            held: stats.held,
            time_waited: stats.time_waited.as_secs_f64(),
            time_held: stats.time_held.as_secs_f64(),
        }
    }
}
