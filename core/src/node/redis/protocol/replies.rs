//! Parses replies, assigns them to their commands, checks and handles them: delivers the result, or sends another
//! command.
//!
//! A late reply, whose caller has given up, is dropped. A grant needs nothing more: dropping its round has sent the
//! delete behind it (`acquire::round`).
//!
//! If a reply does not fit its command, no reply of the connection can be trusted any more.

use std::time::Duration;

use redis::Value;

use super::combined::{Combined, SentRequest, has_long};
use super::merged_deletes::deleted_keys;
use super::pending_deletes::PendingDeletes;
use super::state::Protocol;
use super::{LARGEST, LARGEST_MAP};
use crate::clock::Instant;
use crate::node::redis::commands::command::{BatchKind, Command, Expects, Purpose};
use crate::node::redis::commands::errors::{is_not_now, is_replicas};
use crate::node::redis::commands::reply;
use crate::node::redis::commands::scripts::{load_scripts, plain};
use crate::node::redis::protocol::in_flight::InFlight;
use crate::node::redis::protocol::redirects::{ConnectionEvent, Redirect, is_forwarded};
use crate::node::{Fault, Proof};

/// Reads the time, which few replies need.
type Now<'a> = &'a dyn Fn() -> Instant;

impl Protocol {
    /// Handles bytes of the server. Returns an error if no further reply of this connection can be trusted.
    pub(crate) fn receive_bytes(&mut self, bytes: &[u8], now: Now<'_>) -> Option<Fault> {
        self.parser.add(bytes);
        loop {
            let fault = match self.parser.next() {
                Ok(None) if self.is_too_long(self.parser.partial()) => {
                    self.read_long();
                    Some(Fault::new("a reply is larger than any that a lock needs"))
                }
                Ok(None) => return None,
                Ok(Some(Value::Push { kind, data })) => {
                    self.push_handler.handle(&kind, &data, now())
                }
                Ok(Some(value)) => self.handle_reply(value, now),
                Err(_) => Some(Fault::new("the server's data is not in the Redis protocol")),
            };
            if fault.is_some() {
                return fault;
            }
        }
    }

    /// Whether no lock needs a reply of this length.
    fn is_too_long(&self, length: usize) -> bool {
        let is_map = || {
            let mut next = self.expected.front().into_iter().flat_map(SentRequest::members);
            next.any(|next| next.command.words().next() == Some(b"CLUSTER"))
        };
        length > LARGEST && (length > LARGEST_MAP || !is_map())
    }

    /// Takes the request that the next reply belongs to.
    fn take_next(&mut self) -> Option<SentRequest> {
        let next = self.expected.pop_front()?;
        if self.expected.is_empty() {
            // The server has nothing to send now.
            self.silence = Duration::ZERO;
        }
        Some(next)
    }

    /// Handles the next reply. Returns an error if it fits no command.
    fn handle_reply(&mut self, mut value: Value, now: Now<'_>) -> Option<Fault> {
        let trusted = match self.expected.front_mut() {
            None => return Some(Fault::new("the server sent a reply without a command")),
            Some(SentRequest::Single(next)) => {
                // A read-only error comes from a replica that was the primary before. Another server is now the
                // primary, and this one would refuse all deletes.
                let trusted = next.fits(&value) && !is_replicas(&value);
                if trusted {
                    value = next.last_reply(value)?;
                }
                trusted
            }
            Some(SentRequest::Combined(combined)) => match combined.next_set() {
                Some(next) if reply::sets(&value) && !is_replicas(&value) => {
                    next.set = Some(value == Value::Okay);
                    return None;
                }
                Some(_) => false,
                None => true,
            },
        };
        match self.take_next()? {
            SentRequest::Single(in_flight) if trusted => {
                self.handle_single(in_flight, value, now);
                None
            }
            SentRequest::Combined(combined) if trusted => {
                self.handle_combined(combined, value, now)
            }
            request => Some(self.distrust(request.into_members(), &value, now)),
        }
    }

    /// Fails these commands, because the reply does not fit them. No further reply of this connection can be trusted.
    fn distrust(&mut self, members: Vec<InFlight>, value: &Value, now: Now<'_>) -> Fault {
        self.replies.distrusted = true;
        let fault = self.target.route.redact_fault(reply::unexpected(value));
        members.into_iter().for_each(|member| self.pending.fail(member, &fault, now()));
        fault
    }

    /// Handles the reply to a single command.
    fn handle_single(&mut self, mut in_flight: InFlight, value: Value, now: Now<'_>) {
        // Only once. A server that loses the scripts again immediately has another problem.
        if is_no_script(&value) && in_flight.must_be_repeated() && !in_flight.again {
            // A round drops its replies before it sends its deletes, so a vote with a waiting caller has no delete
            // ahead of it. An extend may have one, and compares its token.
            self.load_scripts(now());
            (in_flight.again, in_flight.set) = (true, None);
            self.send(in_flight, now());
        } else if let Some(in_flight) = self.follow_or_forward(in_flight, &value) {
            self.deliver(in_flight, value, now);
        }
    }

    fn load_scripts(&mut self, now: Instant) {
        for load in load_scripts(true) {
            self.send(InFlight::without_caller(plain(&load, Purpose::Plain)), now);
        }
    }

    /// Gives each command its part of the reply. Commands without a part are sent separately.
    fn handle_combined(
        &mut self,
        combined: Combined,
        mut value: Value,
        now: Now<'_>,
    ) -> Option<Fault> {
        if let Some(parts) = combined.split(&mut value) {
            self.deliver_parts(combined, parts, now);
            return None;
        }
        if !matches!(value, Value::ServerError(_)) || is_replicas(&value) {
            return Some(self.distrust(combined.members, &value, now));
        }
        if is_no_script(&value) {
            self.load_scripts(now());
        } else if !is_not_now(&value) {
            // The user lacks a right, the server is too old, or a proxy rejects keys of several servers.
            self.combines[combined.kind as usize] = false;
        }
        if combined.are_attempts() {
            // Without an owner, each command continues with its script.
            let none = vec![Value::Nil; combined.members.len()];
            self.deliver_parts(combined, none, now);
        } else {
            self.send_separately(combined.members, now);
        }
        None
    }

    fn deliver_parts(&mut self, combined: Combined, parts: Vec<Value>, now: Now<'_>) {
        let attempts = combined.are_attempts();
        if attempts && has_long(&parts) {
            self.read_long();
        }
        let mut separate = Vec::new();
        for (member, part) in combined.members.into_iter().zip(parts) {
            match part {
                Value::Nil if !attempts => separate.push(member),
                part => self.deliver(member, part, now),
            }
        }
        self.send_separately(separate, now);
    }

    /// Handles a value that is longer than any token, or will be: other data under the name of a lock. No connection
    /// may read it as a whole again.
    fn read_long(&mut self) {
        self.pending.link.has_read_long_values();
        self.combines[BatchKind::Attempts as usize] = false;
    }

    /// Sends these deletes or extends separately.
    fn send_separately(&mut self, members: Vec<InFlight>, now: Now<'_>) {
        for mut member in members.into_iter().filter(InFlight::must_be_repeated) {
            member.again = true;
            self.send(member, now());
        }
    }

    /// Handles a redirect of a cluster's server. The command fails, or the task of the cluster gets it. Returns the
    /// command if the reply is not a redirect.
    fn follow_or_forward(&mut self, mut in_flight: InFlight, value: &Value) -> Option<InFlight> {
        let Some(cluster) = &self.target.cluster else { return Some(in_flight) };
        let Some(redirect) = Redirect::parse(value) else { return Some(in_flight) };
        let unserved = redirect == Redirect::NoOwner;
        let migrates = matches!(redirect, Redirect::Ask(_) | Redirect::TryAgain);
        let (purpose, asked) = (&in_flight.command.purpose, matches!(redirect, Redirect::Ask(_)));
        let forwarded = is_forwarded(purpose, asked, in_flight.redirects)
            // The vote created no key, so the delete is not needed.
            && !(unserved && in_flight.unneeded);
        if forwarded {
            in_flight.forget_replies();
            in_flight.count_rerouted(&cluster.rerouted);
            cluster.send(ConnectionEvent::Redirected(Some(in_flight), redirect));
        } else {
            cluster.send(ConnectionEvent::Redirected(None, redirect));
            let refusal = || self.target.route.redact_fault(reply::unexpected(value));
            let fault = if unserved { refusal() } else { Fault::redirect(migrates) };
            let _ = in_flight.reply_to.send(Err(fault));
            if unserved && in_flight.set != Some(true) {
                self.pending.unsent_votes.add(&in_flight.command);
            }
        }
        None
    }

    /// Delivers a reply to the caller.
    fn deliver(&mut self, in_flight: InFlight, value: Value, now: Now<'_>) {
        let Command { purpose, expects, timeout, .. } = &in_flight.command;
        self.replies.voted |= purpose.is_for_locks() && !matches!(value, Value::ServerError(_));
        match purpose {
            Purpose::Delete { .. } => return self.deliver_delete(in_flight, value, now),
            Purpose::Probe => {
                self.pending.link.set_used(now());
                self.probing = false;
            }
            Purpose::Confirm => self.confirm.judge(&value, now(), |(in_flight, value), fault| {
                let timeout = in_flight.command.timeout;
                self.pending.link.vote_was_confirmed(fault.is_none(), timeout);
                let _ = in_flight.reply_to.send(fault.map_or(Ok(value), Err));
            }),
            _ => {}
        }
        let (value, grants) = result(expects, in_flight.set, value);
        let timeout = *timeout;
        match in_flight.confirm_by.filter(|_| grants) {
            Some(by) => self.confirm.hold_grant((in_flight, value), timeout, by),
            // An error means that the caller no longer waits.
            None => drop(in_flight.reply_to.send(Ok(value))),
        }
    }

    fn deliver_delete(&mut self, mut in_flight: InFlight, value: Value, now: Now<'_>) {
        if matches!(value, Value::ServerError(_)) {
            let fault = self.target.route.redact_fault(reply::unexpected(&value));
            if PendingDeletes::stays_after(&fault) {
                self.log_refusal(&fault, now());
                return self.pending.fail(in_flight, &fault, now());
            }
        }
        in_flight.stop_counting();
        self.pending.link.outage.voted(&self.target.url, Proof::Write, now);
        if in_flight.command.purpose.until().is_some() {
            // The server does not notify the client of its own changes, and the local callers were woken when the
            // delete was sent for the first time.
            for key in deleted_keys(&in_flight.command).into_iter().flatten() {
                self.push_handler.watch.wake(&String::from_utf8_lossy(key));
            }
        }
        self.pending.carried_out(&in_flight.command, self.unkilled, now);
        let _ = in_flight.reply_to.send(Ok(value));
    }

    /// Logs the first delete that the server of this connection refused.
    fn log_refusal(&mut self, fault: &Fault, now: Instant) {
        if !std::mem::replace(&mut self.refusal_logged, true)
            && let Some(omitted) = self.pending.refusals.admit(now)
        {
            self.target.warn(&format_args!(
                "a delete was refused, retrying until the TTL of its key ends: {fault}{omitted}"
            ));
        }
    }
}

/// Returns the result of a command, and whether it may be a grant. All others are returned immediately, regardless of
/// replicas and disks. `set` is the first reply of an attempt, or of a prefix.
fn result(expects: &Expects, set: Option<bool>, value: Value) -> (Value, bool) {
    match (expects, &value) {
        (_, Value::Array(parts)) if parts.first() == Some(&Value::Int(1)) => (value, true),
        (Expects::Token(_), Value::BulkString(_)) => (value, true),
        (Expects::Owner, _) if set == Some(true) => (value, true),
        // A key with our token would result from an earlier command. The script determines the result then.
        (Expects::Owner, _) => (Value::Nil, false),
        _ => (value, false),
    }
}

/// Whether the server does not know the script.
fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grants_wait_for_replicas_and_disks() {
        let token = || Expects::Token("token".into());
        let text = || Value::BulkString(b"token".to_vec());
        let array = |vote| Value::Array(vec![Value::Int(vote), text()]);
        for (at, (expects, set, value, result_is)) in [
            (Expects::Echo("a".into()), None, array(1), (array(1), true)),
            (Expects::Echo("a".into()), None, array(0), (array(0), false)),
            (Expects::Echo("a".into()), None, text(), (text(), false)),
            // The reply to a prefix.
            (Expects::Anything, Some(true), Value::Okay, (Value::Okay, false)),
            (token(), None, array(0), (array(0), false)),
            (token(), None, text(), (text(), true)),
            (Expects::Owner, Some(true), text(), (text(), true)),
            (Expects::Owner, Some(true), Value::Nil, (Value::Nil, true)),
            (Expects::Owner, Some(false), text(), (Value::Nil, false)),
            (Expects::Owner, None, Value::Nil, (Value::Nil, false)),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(result(&expects, set, value), result_is, "row {at}");
        }
    }
}
