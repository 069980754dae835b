//! What a client has done so far, as a plain object.

use std::collections::HashMap;

use napi_derive::napi;

use crate::errors::millis;

/// What a client has done in this process so far; times are in ms.
#[napi(object, object_from_js = false)]
pub struct Stats {
    /// Acquires that gave a lease.
    pub granted: f64,
    /// Acquires of one round that found somebody else: `tryAcquire`.
    pub refused: f64,
    /// Acquires whose `wait` was over.
    pub timed_out: f64,
    /// Acquires for which too few nodes answered.
    pub unavailable: f64,
    /// Leases that their owner gave back.
    pub released: f64,
    /// Renewals that a quorum confirmed.
    pub renewed: f64,
    /// Renewals that no quorum confirmed: each is tried again until the lease is over.
    pub unrenewed: f64,
    /// Leases that were lost, by reason; each reason is there. `forked` stays 0: a child counts none of its parent's.
    pub lost: HashMap<String, f64>,
    /// Connections that were opened anew, after one that ended.
    pub reconnects: f64,
    /// Acquires that are under way now.
    pub waiting: f64,
    /// Leases that are held now.
    pub held: f64,
    /// For how long all acquires together had to wait before the round that gave the lease, or until `wait` was over.
    pub time_waited: f64,
    /// For how long all leases together were held that were released or lost.
    pub time_held: f64,
}

impl From<redlock::Stats> for Stats {
    #[expect(clippy::cast_precision_loss, reason = "a number in JavaScript; nobody counts to 2^53")]
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
