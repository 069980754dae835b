//! What is to be asked from time to time that nobody asks for: the server's age, and what is owed.

use redis::Value;

use super::Dialogue;
use crate::node::redis::commands::plain;
use crate::node::redis::handshake::{text, votes_in};
use crate::node::redis::in_flight::{InFlight, Purpose};
use crate::node::redis::steps::about;

/// Every so many chores an age that could not be read is asked for again: the clock may be right by then.
const AGE: u32 = 5;

impl Dialogue {
    /// Whether there is something to do from time to time that nobody asks for.
    pub(crate) fn has_chores(&self) -> bool {
        self.ageless || !self.context.debts.is_empty()
    }

    /// Whether the server has refused deletes that are retried over this connection.
    pub(crate) fn has_refused_deletes(&self) -> bool {
        self.context.link.has_pending_deletes(self.context.clock.now())
    }

    /// Reads the server's age, where it could not be read, and sends pending deletes again: those that the server refused, and
    /// those whose keys a former connection that lives on may have set again.
    pub(crate) fn do_chores(&mut self) {
        if self.ageless && self.chores.is_multiple_of(AGE) {
            self.ask(InFlight::unheard(plain(&about("server"), Purpose::Age)));
        }
        self.chores += 1;
        if !self.context.debts.is_empty() && self.retry.is_due() {
            let now = self.context.clock.now();
            self.context.debts.forget_expired(now);
            self.pay_debts();
        }
    }

    /// An age that can be read now lets the server vote from when it is old enough.
    pub(super) fn read_age(&mut self, answer: &Value) {
        if matches!(answer, Value::ServerError(_)) {
            // It will not be told later either.
            self.ageless = false;
        } else if let Some(wait) = votes_in(&text(answer), self.context.target.guard) {
            self.ageless = false;
            self.context.link.set_votes_from(self.context.votes_in(wait));
        }
    }
}
