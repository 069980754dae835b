//! The answer to what went out together.

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

/// So many answers in a row lacked most of what was asked.
const ODD: u32 = 3;

impl Dialogue {
    /// Hands each its part of the answer; what has none is asked for by itself.
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
            // The user lacks a right, or the server is too old, or something in front takes no keys of several servers.
            self.pipeline.stop_gathering(&group.members[0]);
        }
        if group.attempts {
            // Whoever is not told of an owner asks by script.
            let none = vec![Value::Nil; group.members.len()];
            self.share(group, none);
        } else {
            self.ask_alone(group.members);
        }
        None
    }

    /// It is no answer to these: none of this connection is to be trusted any more.
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

    /// Where most of what should be ours is not, again and again, something in front asks one server of several, by the first
    /// of the keys: so it would be each time.
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

    /// What was read is, or is becoming, longer than any token: somebody's data under the name of a lock. It is not to be read
    /// again as a whole, over this connection or a later one.
    pub(crate) fn read_long(&mut self) {
        self.pipeline.stop_attempts();
        self.context.link.has_read_long_values();
    }

    /// A delete in any case; an extend unless nobody listens any more, or what gives the lease back is on its way: that must
    /// not be followed by what has it live longer.
    fn ask_alone(&mut self, members: Vec<InFlight>) {
        if members.is_empty() {
            return;
        }
        let is_delete = |one: &InFlight| matches!(one.command.purpose, Purpose::Delete { .. });
        // For all extends at once, and for no delete: to look through what is open for each of thousands would take seconds.
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
