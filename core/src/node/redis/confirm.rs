//! Grants that are held back until replicas and disks have them ([`Durability`]).
//!
//! The server counts what this connection has written, so one question covers every vote before it, and the votes
//! of a batch share one. Everything behind it waits on the server as long as it does: there is one at a time, and
//! none is waited for beyond the first of its votes' deadlines.
//!
//! Which votes wait, and until when, is the simulation's, too: it holds grants of its own kind.

use std::time::Duration;

use redis::Value;

use super::answers::{believed, may_grant};
use super::durability::Durability;
use super::in_flight::{Command, Expects, InFlight, Purpose};
use super::pipeline::SILENCE;
use crate::clock::Instant;
use crate::node::Fault;

/// One connection's grants that are not confirmed yet. Each is with whoever asked for it.
pub(crate) struct Confirm<G = (InFlight, Value)> {
    /// What must have become of a grant.
    wanted: Durability,
    /// By when the first of the votes that no question covers must be confirmed; `None`: there are none.
    uncovered: Option<Instant>,
    /// A question is under way.
    asked: bool,
    /// In the order of their answers.
    held: Vec<Held<G>>,
}

/// A grant, until it is known to last.
struct Held<G> {
    /// What is told once it is confirmed.
    grant: G,
    /// How long its caller listens.
    timeout: Duration,
    /// From then on it is a fault.
    by: Instant,
}

/// A server looks this seldom whether a question's time is over (`hz 10`).
const LATE: Duration = Duration::from_millis(100);

/// How much of a vote's time replicas and disks have: the rest is for the way, and for the server's timer.
fn share(timeout: Duration) -> Duration {
    timeout.saturating_sub(LATE + timeout / 10).max(timeout / 2)
}

impl<G> Confirm<G> {
    /// Nothing is asked yet.
    pub(crate) fn new(wanted: Durability) -> Self {
        Self { wanted, uncovered: None, asked: false, held: Vec::new() }
    }

    /// What goes out now; answers by when it must be confirmed, if it is a vote that counts only then.
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

    /// The next question covers a vote that must be confirmed by then: of several, by the first.
    fn cover(&mut self, by: Instant) {
        self.uncovered = Some(self.uncovered.map_or(by, |first| first.min(by)));
    }

    /// How long the server has for a question that covers all votes so far, where one is due.
    pub(crate) fn due(&mut self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        // One at a time: where replicas are away, each takes all of its time on the server, and nothing else is
        // carried out on this connection meanwhile, no delete either.
        if self.asked || self.uncovered.is_none() {
            return None;
        }
        let time = self.uncovered.take()?.since(now());
        self.asked = true;
        Some(time)
    }

    /// A grant that must be confirmed by then.
    pub(crate) fn hold(&mut self, grant: G, timeout: Duration, by: Instant) {
        self.held.push(Held { grant, timeout, by });
    }

    /// The question was answered: tells whoever is confirmed, or must not wait any longer.
    ///
    /// The others' time was cut short by a neighbour's; they are asked for again.
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

    /// The connection broke: nobody will confirm these.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = G> {
        self.held.drain(..).map(|held| held.grant)
    }
}

impl Confirm {
    /// The question that covers all votes so far, where it is due.
    pub(super) fn question(&mut self, now: impl FnOnce() -> Instant) -> Option<Command> {
        let time = self.due(now)?;
        Some(Command {
            bytes: self.wanted.question(time).get_packed_command(),
            expects: Expects::Durable(self.wanted),
            purpose: Purpose::Confirm,
            // It may keep a server silent for all of its time.
            timeout: time + SILENCE,
            untracked: false,
        })
    }

    /// The answer to whoever asked; a grant that is not confirmed yet is held back.
    pub(super) fn deliver(&mut self, in_flight: InFlight, value: Value) {
        let grants = may_grant(&in_flight, &value);
        let answer = believed(&in_flight.command, in_flight.set, value);
        let timeout = in_flight.command.timeout;
        match in_flight.confirm_by.filter(|_| grants) {
            Some(by) => self.hold((in_flight, answer), timeout, by),
            None => drop(in_flight.answer.send(Ok(answer))),
        }
    }

    /// The question was answered.
    pub(super) fn answered(&mut self, value: &Value, now: Instant) {
        self.judge(value, now, |(in_flight, answer), fault| {
            let _ = in_flight.answer.send(fault.map_or(Ok(answer), Err));
        });
    }

    /// The connection broke.
    pub(super) fn broken(&mut self, fault: &Fault) {
        for (in_flight, _) in self.end() {
            let _ = in_flight.answer.send(Err(fault.clone()));
        }
    }
}
