//! The read half of a connection: parses replies, assigns them to their commands, checks them, and delivers the results.
//!
//! A reply that leads to a command, or that changes what the write half ([`super::encoder`]) may send, is a
//! [`Followup`]. The pending deletes are here, because they follow from replies.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::super::commands::plain;
use super::super::context::Target;
use super::super::refusal::is_replicas;
use super::super::reply;
use super::super::steps::load_scripts;
use super::super::strays::{Redirect, Stray};
use super::combined::{ATTEMPTS, Combined, Expected, Request, has_long};
use super::command::{Expects, InFlight, Purpose};
use super::confirm::HeldGrants;
use super::encoder::{Encoder, Followup};
use super::pending_deletes::{PendingDeletes, Retry, UnsentVotes};
use super::push_handler::PushHandler;
use super::reply_check::{
    GIVEN_BACK, believed, denied_delete, fits, given_back, is_no_script, leads_to, lost_scripts,
    may_grant,
};
use super::resp::Parser;
use super::{LARGEST, SILENCE, TICK};
use crate::clock::Instant;
use crate::node::Fault;

/// The number of consecutive replies without most of their parts after which commands are no longer combined.
const MAX_INCOMPLETE: u32 = 3;
/// The minimum time for the reply to a probe, and a multiple of the round-trip time. Probes have a shorter limit than other
/// commands, because callers wait and a new connection takes time.
const PROBE: (Duration, u32) = (Duration::from_millis(500), 3);

/// Reads the time, which few replies need.
pub(crate) type Now<'a> = &'a dyn Fn() -> Instant;

/// The read half of a connection.
pub(crate) struct Decoder {
    /// The bytes that are not parsed yet.
    parser: Parser,
    /// The requests without a reply, which the write half appends.
    pub(crate) expected: Expected,
    /// What the replies so far lead to.
    followups: Vec<Followup>,
    /// The number of commands with a reply so far.
    replied: u64,
    /// How long nothing was read while replies were outstanding. It is counted in ticks, so that a pause of this process
    /// does not count as the server's.
    silence: Duration,
    /// The round-trip time of the handshake.
    round_trip: Duration,
    /// The longest time that a caller has waited for a vote.
    longest_vote: Duration,
    /// The grants that replicas and disks must confirm, with their commands.
    held: HeldGrants<(InFlight, Value)>,
    /// The deletes without a confirmation.
    pending: PendingDeletes,
    /// When the pending deletes are sent again.
    retry: Retry,
    /// Whether it was logged that the server refuses deletes.
    refusal_logged: bool,
    /// When the connection began, if the previous one may still exist. Deletes are then repeated until the keys have
    /// expired that it may still set.
    unkilled: Option<Instant>,
    /// How many consecutive combined replies lacked most of their parts.
    incomplete: u32,
    target: Target,
    push_handler: Arc<PushHandler>,
}

impl Decoder {
    /// Creates the read half of a new connection, which continues after the handshake.
    pub(crate) fn new(
        target: Target,
        (parser, round_trip): (Parser, Duration),
        pending: PendingDeletes,
        unkilled: Option<Instant>,
        push_handler: Arc<PushHandler>,
    ) -> Self {
        Self {
            parser,
            expected: Expected::new(),
            followups: Vec::new(),
            replied: 0,
            silence: Duration::ZERO,
            round_trip,
            longest_vote: Duration::ZERO,
            held: HeldGrants::new(target.needs.durability),
            pending,
            retry: Retry::default(),
            refusal_logged: false,
            unkilled,
            incomplete: 0,
            target,
            push_handler,
        }
    }

    /// Handles bytes of the server. Returns an error if no further reply of this connection can be trusted.
    pub(crate) fn read(&mut self, bytes: &[u8], now: Now<'_>) -> Option<Fault> {
        self.parser.add(bytes);
        loop {
            let fault = match self.parser.next() {
                Ok(None) if self.parser.partial() > LARGEST => {
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

    /// Passes what the replies lead to to the write half.
    pub(crate) fn pass_followups(&mut self, encoder: &mut Encoder, now: impl FnOnce() -> Instant) {
        if !self.followups.is_empty() {
            let now = now();
            self.followups
                .drain(..)
                .for_each(|followup| encoder.follow(followup, now, &mut self.expected));
        }
    }

    /// Takes the request that the next reply belongs to.
    fn take_next(&mut self) -> Option<Request> {
        let next = self.expected.pop_front()?;
        self.replied += next.members().len() as u64;
        for member in next.members() {
            if member.command.purpose.is_vote() {
                self.longest_vote = self.longest_vote.max(member.command.timeout);
            }
        }
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
            Some(Request::Single(next)) => {
                // A read-only error comes from a replica that was the primary before. Another server is now the
                // primary, and this one would refuse all deletes.
                let trusted = fits(next, &value) && !is_replicas(&value);
                if trusted {
                    value = next.whole(value)?;
                }
                trusted
            }
            Some(Request::Combined(combined)) => match combined.next_set() {
                Some(next) if reply::sets(&value) && !is_replicas(&value) => {
                    next.set = Some(value == Value::Okay);
                    return None;
                }
                Some(_) => false,
                None => true,
            },
        };
        match self.take_next()? {
            Request::Single(in_flight) if trusted => {
                self.handle_single(in_flight, value, now);
                None
            }
            Request::Combined(combined) if trusted => self.handle_combined(combined, value, now),
            request => Some(self.distrust(request.into_members(), &value, now)),
        }
    }

    /// Fails these commands, because the reply does not fit them. No further reply of this connection can be trusted.
    fn distrust(&mut self, members: Vec<InFlight>, value: &Value, now: Now<'_>) -> Fault {
        let fault = self.target.route.redact_fault(reply::unexpected(value));
        members.into_iter().for_each(|member| self.pending.refuse(member, &fault, now()));
        fault
    }

    /// Handles the reply to a single command.
    fn handle_single(&mut self, mut in_flight: InFlight, value: Value, now: Now<'_>) {
        if given_back(&in_flight, &value, self.releases()) {
            self.pending.refuse(in_flight, &Fault::new(GIVEN_BACK), now());
            return;
        }
        let denied = denied_delete(&in_flight, &value, self.target.needs.scripts);
        if denied {
            self.followups.push(Followup::DeleteByScript);
        }
        if denied || lost_scripts(&in_flight, &value) {
            // A round drops its replies before it sends its deletes, so a command with a waiting caller has no delete
            // ahead of it.
            self.load_scripts();
            (in_flight.again, in_flight.set) = (true, None);
            self.followups.push(Followup::Send(in_flight));
        } else if let Some(in_flight) = self.redirect(in_flight, &value) {
            self.deliver(in_flight, value, now);
        }
    }

    /// Returns the tokens of all releases without a reply.
    fn releases(&self) -> impl Iterator<Item = &Arc<str>> {
        let any = self.pending.link.has_deletes();
        let again = self.followups.iter().filter_map(|followup| match followup {
            Followup::Send(in_flight) => Some(in_flight),
            _ => None,
        });
        let open = self.expected.iter().flat_map(Request::members).chain(again);
        open.take_while(move |_| any).filter_map(|open| match &open.command.purpose {
            Purpose::Delete { token, .. } => Some(token),
            _ => None,
        })
    }

    fn load_scripts(&mut self) {
        let load = |load| Followup::Send(InFlight::unheard(plain(&load, Purpose::Plain)));
        self.followups.extend(load_scripts().map(load));
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
            self.load_scripts();
        } else {
            // The user lacks a right, the server is too old, or a proxy rejects keys of several servers.
            self.followups.push(Followup::Separate(combined.kind));
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
        // A proxy may send combined commands to a single server, chosen by the first key, and would always do so.
        let lacks = |(one, part): &(&InFlight, &Value)| {
            **part == Value::Nil && (!attempts || one.set == Some(true))
        };
        let lacking = combined.members.iter().zip(&parts).filter(lacks).count();
        self.incomplete = if 2 * lacking > parts.len() { self.incomplete + 1 } else { 0 };
        if self.incomplete >= MAX_INCOMPLETE {
            self.followups.push(Followup::Separate(combined.kind));
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
        self.followups.push(Followup::Separate(ATTEMPTS));
    }

    /// Sends these commands separately. Deletes are always sent. An extend is sent only if its caller waits and no
    /// release of its lease is under way, because it would extend the lease after that.
    fn send_separately(&mut self, members: Vec<InFlight>, now: Now<'_>) {
        if members.is_empty() {
            return;
        }
        let is_delete = |one: &InFlight| matches!(one.command.purpose, Purpose::Delete { .. });
        // Computed once for all extends, and not for deletes. To search the open commands for each of thousands would
        // be quadratic.
        let given_back: HashSet<Arc<str>> = if members.iter().all(is_delete) {
            HashSet::new()
        } else {
            self.releases().cloned().collect()
        };
        for mut member in members {
            let delete = is_delete(&member);
            let over = |token| !delete && given_back.contains(token);
            if matches!(&member.command.expects, Expects::Token(token) if over(token)) {
                self.pending.refuse(member, &Fault::new(GIVEN_BACK), now());
            } else if delete || !member.answer.is_closed() {
                member.again = true;
                self.followups.push(Followup::Send(member));
            }
        }
    }

    /// Passes a command that a cluster's server did not serve to the router. Returns the command if its reply is for
    /// the caller.
    fn redirect(&mut self, mut in_flight: InFlight, value: &Value) -> Option<InFlight> {
        let Some(outlet) = &self.target.outlet else { return Some(in_flight) };
        let Some(redirect) = Redirect::read(value) else { return Some(in_flight) };
        let unserved = redirect == Redirect::Nobody;
        let delete = matches!(in_flight.command.purpose, Purpose::Delete { .. });
        let first = matches!(in_flight.command.purpose, Purpose::FirstVote { .. });
        // Either a first vote that created no key and would fail again, or the delete of such a vote.
        let nothing = if first { in_flight.set != Some(true) } else { in_flight.unneeded };
        if unserved && nothing {
            outlet.say(Stray::Told(redirect));
            if delete {
                self.pending.link.delete_answered();
            }
            let fault = self.target.route.redact_fault(reply::unexpected(value));
            let _ = in_flight.answer.send(Err(fault));
            self.followups.push(Followup::NeverSent(in_flight.command));
            return None;
        }
        // A second command follows and is redirected the same way.
        if matches!(in_flight.command.expects, Expects::Owner) || (unserved && !delete) {
            outlet.say(Stray::Told(redirect));
            return Some(in_flight);
        }
        if let Purpose::Force { keys, begin, .. } = &in_flight.command.purpose {
            // Starts again with the other server, whose clock and key may differ.
            in_flight.command = begin(keys);
        }
        in_flight.forget_answers();
        in_flight.goes_astray(&outlet.astray);
        outlet.say(Stray::Redirected(in_flight, redirect));
        if delete {
            self.pending.link.delete_answered();
        }
        None
    }

    /// Delivers a reply to the caller.
    fn deliver(&mut self, in_flight: InFlight, value: Value, now: Now<'_>) {
        if matches!(in_flight.command.purpose, Purpose::Delete { .. }) {
            if let Some(fault) = self.refused_delete(&value, now) {
                self.pending.refuse(in_flight, &fault, now());
                // Counted after the delete is recorded as pending, so that it is counted at every time.
                self.pending.link.delete_answered();
                return;
            }
            self.pending.link.delete_answered();
        }
        if let Some(next) = leads_to(&in_flight, &value) {
            let keys = in_flight.command.forced_keys();
            self.followups.push(Followup::Send(in_flight.followed_by(next)));
            // The server does not notify the connection that deleted. Commands that are sent now follow the delete.
            self.push_handler.watch.changed_keys(&keys);
            return;
        }
        match (&in_flight.command.purpose, self.unkilled) {
            (Purpose::Probe, _) => {
                self.pending.link.set_used(now());
                self.followups.push(Followup::Probed);
            }
            (Purpose::Confirm, _) => {
                let unconfirmed = self.held.judge(&value, now(), |(in_flight, value), fault| {
                    let _ = in_flight.answer.send(fault.map_or(Ok(value), Err));
                });
                self.followups.push(Followup::Confirmed(unconfirmed));
            }
            // A command of the previous connection may still arrive after this delete.
            (Purpose::Delete { owed, .. }, Some(opened)) if opened + *owed > now() => {
                self.pending.repeat(in_flight.command.clone(), opened);
            }
            _ => {}
        }
        let grants = may_grant(&in_flight, &value);
        let value = believed(&in_flight.command, in_flight.set, value);
        let timeout = in_flight.command.timeout;
        match in_flight.confirm_by.filter(|_| grants) {
            Some(by) => self.held.hold((in_flight, value), timeout, by),
            None => drop(in_flight.answer.send(Ok(value))),
        }
    }

    /// Returns why the server did not carry out a delete. The delete stays pending: the server may be busy, unable to
    /// write, or lack a right for now. Returns `None` if it was carried out, or if the error means that the key is not
    /// a lock's key on this server.
    fn refused_delete(&mut self, value: &Value, now: Now<'_>) -> Option<Fault> {
        if !matches!(value, Value::ServerError(_)) {
            return None;
        }
        let fault = self.target.route.redact_fault(reply::unexpected(value));
        if fault.permanent().is_some() {
            return None;
        }
        if !std::mem::replace(&mut self.refusal_logged, true)
            && let Some(omitted) = self.pending.refusals.admit(now())
        {
            self.target.warn(&format_args!(
                "a released key is not deleted yet, retrying until its TTL ends: {fault}{omitted}"
            ));
        }
        if self.pending.is_empty() {
            self.retry = Retry::default();
        }
        Some(fault)
    }

    /// Sends the pending deletes.
    pub(crate) fn send_pending_deletes(&mut self) {
        self.followups.push(Followup::PendingDeletes(self.pending.take()));
    }

    /// Whether deletes are pending: those that the server refused, and those whose keys a previous connection may set
    /// again.
    pub(crate) fn has_pending_deletes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a delete is pending whose keys may still exist.
    pub(crate) fn has_unexpired_deletes(&self, now: Instant) -> bool {
        self.pending.link.has_pending_deletes(now)
    }

    /// Sends the pending deletes again if it is time for that. Called once per second.
    pub(crate) fn retry_deletes(&mut self, now: Instant) {
        if self.has_pending_deletes() && self.retry.is_due() {
            self.pending.forget_expired(now);
            self.send_pending_deletes();
        }
    }

    /// Returns the number of commands with a reply so far.
    pub(crate) fn replied(&self) -> u64 {
        self.replied
    }

    /// Records that something was read.
    pub(crate) fn end_silence(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// Counts a tick in which nothing was read and replies were outstanding. Returns an error once the silence is too
    /// long.
    pub(crate) fn count_silence(&mut self) -> Option<Fault> {
        self.silence += TICK;
        let open = self.expected.iter().flat_map(Request::members).map(|open| &open.command);
        if open.clone().any(|open| matches!(open.purpose, Purpose::Probe)) {
            let forgotten = "the server does not reply on a connection that was idle";
            return (self.silence > self.probe_limit()).then(|| Fault::new(forgotten));
        }
        // A caller may wait longer, and the server then gets that time.
        let timeout = open.map(|open| open.timeout).max();
        let limit = timeout.unwrap_or_default().max(SILENCE);
        (self.silence > limit + TICK).then(|| {
            Fault::new(format!("the server sent nothing for {:.1} s", limit.as_secs_f64()))
        })
    }

    /// Returns how long the server may take to reply to a probe. A slow network needs more than the minimum, but no
    /// caller waits longer than for a vote.
    fn probe_limit(&self) -> Duration {
        let (least, round_trips) = PROBE;
        (self.round_trip * round_trips).min(self.longest_vote.max(SILENCE)).max(least)
    }

    /// Ends the connection. The commands without a reply fail, unless it ended well.
    pub(crate) fn end(
        mut self,
        mut encoder: Encoder,
        fault: Option<&Fault>,
        now: Instant,
    ) -> (UnsentVotes, PendingDeletes) {
        self.pass_followups(&mut encoder, || now);
        let (open, unsent_votes) = encoder.end(self.expected);
        if let Some(fault) = fault {
            for (in_flight, _) in self.held.end() {
                let _ = in_flight.answer.send(Err(fault.clone()));
            }
            open.into_iter().for_each(|in_flight| self.pending.refuse(in_flight, fault, now));
        }
        (unsent_votes, self.pending)
    }
}
