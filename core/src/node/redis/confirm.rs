//! Grants that are held back until replicas and disks have them ([`Durability`]).
//!
//! The server counts what this connection has written, so one question covers every vote before it, and the votes
//! of a batch share one. Everything behind it waits on the server as long as it does: there is one at a time, and
//! none is waited for beyond the first of its votes' deadlines.

use std::time::Duration;

use redis::Value;

use super::answers::{believed, may_grant};
use super::durability::Durability;
use super::in_flight::{Command, Expects, InFlight, Purpose};
use super::pipeline::SILENCE;
use crate::clock::Instant;
use crate::node::Fault;

/// One connection's grants that are not confirmed yet.
pub(super) struct Confirm {
    wanted: Durability,
    /// By when the first of the votes that no question covers must be confirmed; `None`: there are none.
    uncovered: Option<Instant>,
    /// A question is under way.
    asked: bool,
    /// In the order of their answers.
    held: Vec<Held>,
}

/// A grant, until it is known to last.
struct Held {
    in_flight: InFlight,
    /// What its caller is told then.
    answer: Value,
    /// From then on it is a fault.
    by: Instant,
}

/// A server looks this seldom whether a question's time is over (`hz 10`).
const LATE: Duration = Duration::from_millis(100);

/// How much of a vote's time replicas and disks have: the rest is for the way, and for the server's timer.
fn share(timeout: Duration) -> Duration {
    timeout.saturating_sub(LATE + timeout / 10).max(timeout / 2)
}

impl Confirm {
    /// Nothing is asked yet.
    pub(super) fn new(wanted: Durability) -> Self {
        Self { wanted, uncovered: None, asked: false, held: Vec::new() }
    }

    /// What goes out now; answers by when it must be confirmed, if it is a vote that counts only then.
    pub(super) fn sending(
        &mut self,
        command: &Command,
        now: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        if self.wanted.is_none() || !command.purpose.is_vote() {
            return None;
        }
        let by = now() + share(command.timeout);
        self.cover(by);
        Some(by)
    }

    fn cover(&mut self, by: Instant) {
        self.uncovered = Some(self.uncovered.map_or(by, |first| first.min(by)));
    }

    /// The question that covers all votes so far, where it is due.
    pub(super) fn question(&mut self, now: impl FnOnce() -> Instant) -> Option<Command> {
        // One at a time: where replicas are away, each takes all of its time on the server, and nothing else is
        // carried out on this connection meanwhile, no delete either.
        if self.asked || self.uncovered.is_none() {
            return None;
        }
        let time = self.uncovered.take()?.since(now());
        self.asked = true;
        Some(Command {
            bytes: self.wanted.question(time).get_packed_command().into(),
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
        match in_flight.confirm_by.filter(|_| grants) {
            Some(by) => self.held.push(Held { in_flight, answer, by }),
            None => drop(in_flight.answer.send(Ok(answer))),
        }
    }

    /// The question was answered: whoever is confirmed, or must not wait any longer, is told.
    ///
    /// The others' time was cut short by a neighbour's; they are asked for again.
    pub(super) fn answered(&mut self, value: &Value, now: Instant) {
        self.asked = false;
        for held in std::mem::take(&mut self.held) {
            let waited = share(held.in_flight.command.timeout);
            let fault = self.wanted.shortfall(value, waited);
            match fault {
                None => drop(held.in_flight.answer.send(Ok(held.answer))),
                Some(_) if held.by > now && !matches!(value, Value::ServerError(_)) => {
                    self.cover(held.by);
                    self.held.push(held);
                }
                Some(fault) => drop(held.in_flight.answer.send(Err(fault))),
            }
        }
    }

    /// The connection broke: nobody will confirm these.
    pub(super) fn broken(&mut self, fault: &Fault) {
        for held in self.held.drain(..) {
            let _ = held.in_flight.answer.send(Err(fault.clone()));
        }
    }
}
