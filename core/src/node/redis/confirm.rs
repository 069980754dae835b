//! Holds grants back until replicas and disks have confirmed them ([`Durability`]).
//!
//! The server counts the writes of this connection, so one request covers all earlier votes. All later commands wait on
//! the server as long as this request does. Therefore only one is under way, and it waits no longer than the earliest
//! deadline of its votes.
//!
//! The simulation uses the same rules with its own kind of grants.

use std::time::Duration;

use redis::Value;

use super::answers::{believed, may_grant};
use super::durability::Durability;
use super::in_flight::{Command, Expects, InFlight, Purpose};
use super::pipeline::SILENCE;
use crate::clock::Instant;
use crate::node::Fault;

/// The unconfirmed grants of one connection, each with its command.
pub(crate) struct Confirm<G = (InFlight, Value)> {
    /// The required durability.
    wanted: Durability,
    /// The earliest time by which a vote must be confirmed that no request covers. `None` without such votes.
    uncovered: Option<Instant>,
    /// Whether a request is under way.
    asked: bool,
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

/// The interval at which a server checks the timeout of a waiting command (`hz 10`).
const LATE: Duration = Duration::from_millis(100);

/// Returns the part of a vote's timeout for replicas and disks. The rest is for the network and for the server's timer.
fn share(timeout: Duration) -> Duration {
    timeout.saturating_sub(LATE + timeout / 10).max(timeout / 2)
}

impl<G> Confirm<G> {
    /// Creates an empty state.
    pub(crate) fn new(wanted: Durability) -> Self {
        Self { wanted, uncovered: None, asked: false, held: Vec::new() }
    }

    /// Records a command that is sent now. Returns the deadline for its confirmation, if it is a vote that needs one.
    pub(crate) fn sending(
        &mut self,
        purpose: &Purpose,
        timeout: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        if self.wanted.is_none() || !purpose.is_vote() {
            return None;
        }
        let by = now() + share(timeout);
        self.cover(by);
        Some(by)
    }

    /// Adds a deadline to the next request. The earliest one counts.
    fn cover(&mut self, by: Instant) {
        self.uncovered = Some(self.uncovered.map_or(by, |first| first.min(by)));
    }

    /// Returns how long the server may wait for the request that covers all votes so far, if one is due.
    pub(crate) fn due(&mut self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        // Only one at a time. If replicas are down, each request takes its whole time. Meanwhile the server runs no
        // other command of this connection, including deletes.
        if self.asked || self.uncovered.is_none() {
            return None;
        }
        let time = self.uncovered.take()?.since(now());
        self.asked = true;
        Some(time)
    }

    /// Holds a grant that must be confirmed by this time.
    pub(crate) fn hold(&mut self, grant: G, timeout: Duration, by: Instant) {
        self.held.push(Held { grant, timeout, by });
    }

    /// Handles the reply to a request: returns the grants that are confirmed or out of time.
    ///
    /// The other grants shared a request that another vote had shortened. They are covered by the next one.
    pub(crate) fn judge(&mut self, value: &Value, now: Instant, tell: impl Fn(G, Option<Fault>)) {
        self.asked = false;
        for held in std::mem::take(&mut self.held) {
            match self.wanted.shortfall(value, share(held.timeout)) {
                Some(_) if held.by > now && !matches!(value, Value::ServerError(_)) => {
                    self.cover(held.by);
                    self.held.push(held);
                }
                fault => tell(held.grant, fault),
            }
        }
    }

    /// Returns the grants of a broken connection, which can no longer be confirmed.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = G> {
        self.held.drain(..).map(|held| held.grant)
    }
}

impl Confirm {
    /// Builds the request that covers all votes so far, if one is due.
    pub(super) fn question(&mut self, now: impl FnOnce() -> Instant) -> Option<Command> {
        let time = self.due(now)?;
        Some(Command {
            bytes: self.wanted.question(time).get_packed_command(),
            expects: Expects::Durable(self.wanted),
            purpose: Purpose::Confirm,
            // The server may be silent for the whole time of the request.
            timeout: time + SILENCE,
            untracked: false,
        })
    }

    /// Delivers a reply to the caller. A grant that needs a confirmation is held back.
    pub(super) fn deliver(&mut self, in_flight: InFlight, value: Value) {
        let grants = may_grant(&in_flight, &value);
        let answer = believed(&in_flight.command, in_flight.set, value);
        let timeout = in_flight.command.timeout;
        match in_flight.confirm_by.filter(|_| grants) {
            Some(by) => self.hold((in_flight, answer), timeout, by),
            None => drop(in_flight.answer.send(Ok(answer))),
        }
    }

    /// Handles the reply to a request.
    pub(super) fn answered(&mut self, value: &Value, now: Instant) {
        self.judge(value, now, |(in_flight, answer), fault| {
            let _ = in_flight.answer.send(fault.map_or(Ok(answer), Err));
        });
    }

    /// Handles the end of the connection.
    pub(super) fn broken(&mut self, fault: &Fault) {
        for (in_flight, _) in self.end() {
            let _ = in_flight.answer.send(Err(fault.clone()));
        }
    }
}
