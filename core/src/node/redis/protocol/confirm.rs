//! Holds grants back until replicas and disks have confirmed them ([`Durability`]).
//!
//! The server counts the writes of this connection, so one request covers all earlier votes. All later commands wait on
//! the server as long as this request does. Therefore only one is under way, and it waits no longer than the earliest
//! deadline of its votes.
//!
//! The simulation uses the same rules with its own kind of grants.

use std::time::Duration;

use redis::Value;

use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::command::Purpose;
use crate::node::redis::commands::durability::Durability;

/// The interval at which a server checks the timeout of a waiting command (`hz 10`).
const LATE: Duration = Duration::from_millis(100);

/// Returns the part of a vote's timeout for replicas and disks. The rest is for the network and for the server's timer.
fn share(timeout: Duration) -> Duration {
    timeout.saturating_sub(LATE + timeout / 10).max(timeout / 2)
}

/// The unconfirmed grants of one connection, and the requests to confirm them.
pub(crate) struct Confirmations<G> {
    pub(super) wanted: Durability,
    /// The earliest time by which a vote must be confirmed that no request covers. `None` without such votes.
    uncovered: Option<Instant>,
    /// Whether a request is under way.
    sent: bool,
    /// In the order of their replies.
    held: Vec<Held<G>>,
}

/// A grant that waits for its confirmation.
struct Held<G> {
    /// The result for the caller once it is confirmed.
    grant: G,
    /// How long the caller waits.
    timeout: Duration,
    /// When it fails without a confirmation.
    by: Instant,
}

impl<G> Confirmations<G> {
    pub(crate) fn new(wanted: Durability) -> Self {
        Self { wanted, uncovered: None, sent: false, held: Vec::new() }
    }

    /// Records a command that is sent now. Returns the deadline for its confirmation, if it is a vote that needs one.
    pub(crate) fn sending(
        &mut self,
        purpose: &Purpose,
        timeout: Duration,
        now: Instant,
    ) -> Option<Instant> {
        if self.wanted.is_none() || !purpose.is_vote() {
            return None;
        }
        let by = now + share(timeout);
        self.cover(Some(by));
        Some(by)
    }

    /// Adds a deadline to the next request. The earliest one counts.
    fn cover(&mut self, by: Option<Instant>) {
        self.uncovered = self.uncovered.into_iter().chain(by).min();
    }

    /// Returns how long the server may wait for the request that covers all votes so far, if one is due.
    pub(crate) fn due(&mut self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        // Only one at a time. If replicas are down, each request takes its whole time. Meanwhile the server runs no
        // other command of this connection, including deletes.
        if self.sent || self.uncovered.is_none() {
            return None;
        }
        let time = self.uncovered.take()?.since(now());
        self.sent = true;
        Some(time)
    }

    /// Holds a grant that must be confirmed by this time.
    pub(crate) fn hold_grant(&mut self, grant: G, timeout: Duration, by: Instant) {
        self.held.push(Held { grant, timeout, by });
    }

    /// Handles the reply to a request: delivers the grants that are confirmed or out of time.
    ///
    /// The others shared a request that another vote had shortened. They are covered by the next one.
    pub(crate) fn judge(
        &mut self,
        value: &Value,
        now: Instant,
        deliver: impl Fn(G, Option<Fault>),
    ) {
        for held in std::mem::take(&mut self.held) {
            match self.wanted.shortfall(value, share(held.timeout)) {
                Some(_) if held.by > now && !matches!(value, Value::ServerError(_)) => {
                    self.held.push(held);
                }
                fault => deliver(held.grant, fault),
            }
        }
        self.sent = false;
        self.cover(self.held.iter().map(|held| held.by).min());
    }

    /// Returns the grants of a broken connection, which can no longer be confirmed.
    pub(crate) fn drain_grants(&mut self) -> impl Iterator<Item = G> {
        self.held.drain(..).map(|held| held.grant)
    }
}
