//! Sends periodic commands: a request for the server's age, and pending deletes.

use redis::Value;

use super::Dialogue;
use crate::node::redis::commands::plain;
use crate::node::redis::handshake::{field, text, votes_in};
use crate::node::redis::in_flight::{InFlight, Purpose};
use crate::node::redis::steps::about;

/// The number of chores after which an unreadable age is requested again. The server's clock may have been corrected, or
/// its user may have the right by now.
const AGE: u32 = 5;

impl Dialogue {
    /// Whether there is periodic work.
    pub(crate) fn has_chores(&self) -> bool {
        self.ageless || !self.context.debts.is_empty()
    }

    /// Whether the server has refused deletes that are retried over this connection.
    pub(crate) fn has_refused_deletes(&self) -> bool {
        self.context.link.has_pending_deletes(self.context.clock.now())
    }

    /// Requests the server's age if it could not be read, and sends pending deletes again. Pending are the deletes that
    /// the server refused, and those whose keys a previous connection may set again.
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

    /// Handles the server's age. If it is readable now, the server votes once it is old enough.
    pub(super) fn read_age(&mut self, answer: &Value) {
        let about = text(answer);
        if let Some(wait) = votes_in(&about, self.context.target.guard) {
            self.ageless = false;
            // A proxy that changes its server keeps this connection, so the previous server may still run.
            self.context.enter(field(&about, "run_id").map(str::to_owned), false);
            self.context.link.set_votes_from(self.context.votes_in(wait));
        }
    }
}
