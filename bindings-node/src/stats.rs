//! A client's statistics, as a plain object.

use std::collections::HashMap;

use napi_derive::napi;

use crate::errors::millis;

/// The statistics of a client in this process. Times are in ms.
#[napi(object, object_from_js = false)]
pub struct Stats {
    /// Acquires that returned a lease.
    pub granted: f64,
    /// Acquires of a single round that found another holder (`tryAcquire`).
    pub refused: f64,
    /// Acquires whose `wait` ended.
    pub timed_out: f64,
    /// Acquires for which too few nodes replied.
    pub unavailable: f64,
    /// Leases that their owner released.
    pub released: f64,
    /// Renewals that a quorum confirmed.
    pub renewed: f64,
    /// Renewals that no quorum confirmed. Each is retried until the lease ends.
    pub unrenewed: f64,
    /// Lost leases by reason, with a number for every reason. `forked` stays 0, because a child does not count the
    /// leases of its parent.
    #[napi(
        ts_type = "Record<'expired' | 'taken' | 'missing' | 'quorum' | 'max_hold' | 'forked' | 'closed' | 'revoked' | \
                      'internal', number>"
    )]
    pub lost: HashMap<String, f64>,
    /// Connections that were opened again, after an earlier one had ended.
    pub reconnects: f64,
    /// Acquires in progress.
    pub waiting: f64,
    /// Leases that are held now.
    pub held: f64,
    /// Total time that acquires waited, in ms, before the round that acquired the lease or until `wait` ended.
    pub time_waited: f64,
    /// Total time that leases were held, in ms, counting those that were released or lost.
    pub time_held: f64,
}

impl From<redlock::Stats> for Stats {
    #[expect(clippy::cast_precision_loss, reason = "a number in JavaScript; no count reaches 2^53")]
    fn from(stats: redlock::Stats) -> Self {
        let lost = stats.lost.into_iter();
        Self {
            granted: stats.granted as f64,
            refused: stats.refused as f64,
            timed_out: stats.timed_out as f64,
            unavailable: stats.unavailable as f64,
            released: stats.released as f64,
            renewed: stats.renewed as f64,
            unrenewed: stats.unrenewed as f64,
            lost: lost.map(|(reason, lost)| (reason.as_str().to_owned(), lost as f64)).collect(),
            reconnects: stats.reconnects as f64,
            waiting: stats.waiting as f64,
            held: stats.held as f64,
            time_waited: millis(stats.time_waited),
            time_held: millis(stats.time_held),
        }
    }
}
