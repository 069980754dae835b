//! Handles the replies to commands that were sent together.

use std::collections::HashSet;
use std::sync::Arc;

use redis::Value;

use super::Dialogue;
use crate::node::Fault;
use crate::node::redis::answers::{GIVEN_BACK, is_no_script};
use crate::node::redis::in_flight::{Expects, InFlight, Purpose};
use crate::node::redis::pipeline::{self, Group};
use crate::node::redis::refusal::is_replicas;
use crate::node::redis::reply;

/// The number of consecutive replies without most of their parts after which commands are no longer combined.
const ODD: u32 = 3;

impl Dialogue {
    /// Gives each command its part of the reply. Commands without a part are sent separately.
    pub(super) fn answered_together(&mut self, group: Group, mut value: Value) -> Option<Fault> {
        if let Some(shares) = group.shares(&mut value) {
            self.share(group, shares);
            return None;
        }
        if !matches!(value, Value::ServerError(_)) || is_replicas(&value) {
            return Some(self.distrusts(group.members, &value));
        }
        if is_no_script(&value) {
            self.load_scripts();
        } else {
            // The user lacks a right, the server is too old, or a proxy rejects keys of several servers.
            self.pipeline.stop_gathering(&group.members[0]);
        }
        if group.attempts {
            // Without an owner, each command continues with its script.
            let none = vec![Value::Nil; group.members.len()];
            self.share(group, none);
        } else {
            self.ask_alone(group.members);
        }
        None
    }

    /// Fails these commands, because the reply does not fit them. No further reply of this connection can be trusted.
    pub(super) fn distrusts(&mut self, members: Vec<InFlight>, value: &Value) -> Fault {
        let fault = self.context.target.route.redact_fault(reply::unexpected(value));
        members.into_iter().for_each(|member| self.context.refuse(member, &fault));
        fault
    }

    fn share(&mut self, group: Group, shares: Vec<Value>) {
        let attempts = group.attempts;
        if attempts && pipeline::has_long(&shares) {
            self.read_long();
        }
        self.note_what_lacks(&group, &shares);
        let mut alone = Vec::new();
        for (member, share) in group.members.into_iter().zip(shares) {
            match share {
                Value::Nil if !attempts => alone.push(member),
                share => self.deliver(member, share),
            }
        }
        self.ask_alone(alone);
    }

    /// Stops combining commands if most of the parts are missing repeatedly. A proxy then sends them to a single
    /// server, chosen by the first key, and would always do so.
    fn note_what_lacks(&mut self, group: &Group, shares: &[Value]) {
        let lacks = |(one, share): &(&InFlight, &Value)| {
            **share == Value::Nil && (!group.attempts || one.set == Some(true))
        };
        let lacking = group.members.iter().zip(shares).filter(lacks).count();
        self.odd = if 2 * lacking > shares.len() { self.odd + 1 } else { 0 };
        if self.odd >= ODD {
            self.pipeline.stop_gathering(&group.members[0]);
        }
    }

    /// Handles a value that is longer than any token, or will be: other data under the name of a lock. No connection
    /// may read it as a whole again.
    pub(crate) fn read_long(&mut self) {
        self.pipeline.stop_attempts();
        self.context.link.has_read_long_values();
    }

    /// Sends these commands separately. Deletes are always sent. An extend is sent only if its caller waits and no
    /// release of its lease is under way, because it would extend the lease after that.
    fn ask_alone(&mut self, members: Vec<InFlight>) {
        if members.is_empty() {
            return;
        }
        let is_delete = |one: &InFlight| matches!(one.command.purpose, Purpose::Delete { .. });
        // Computed once for all extends, and not for deletes. To search the open commands for each of thousands would
        // be quadratic.
        let given_back: HashSet<Arc<str>> = if members.iter().all(is_delete) {
            HashSet::new()
        } else {
            self.giving_back().cloned().collect()
        };
        for mut member in members {
            let delete = is_delete(&member);
            let over = |token| !delete && given_back.contains(token);
            if matches!(&member.command.expects, Expects::Token(token) if over(token)) {
                self.context.refuse(member, &Fault::new(GIVEN_BACK));
            } else if delete || !member.answer.is_closed() {
                member.again = true;
                self.ask(member);
            }
        }
    }
}
