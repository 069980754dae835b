//! The read half of a connection: parses replies and assigns them to their commands.
//!
//! [`super::replies`] handles each reply. A reply that leads to a command, or that changes what the write half
//! ([`super::encoder`]) may send, is a [`Followup`]. The pending deletes are here, because they follow from replies.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::combined::{Expected, Request};
use super::command::{InFlight, Purpose};
use super::confirm::HeldGrants;
use super::encoder::{Encoder, Followup};
use super::pending_deletes::{PendingDeletes, UnsentVotes};
use super::push_handler::PushHandler;
use super::resp::Parser;
use super::{LARGEST, SILENCE, TICK};
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::errors::is_replicas;
use crate::node::redis::commands::reply;
use crate::node::redis::connect::Target;

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
    /// The consequences of the replies so far.
    pub(super) followups: Vec<Followup>,
    /// How long nothing was read while replies were outstanding. It is counted in ticks, so that a pause of this process
    /// does not count as the server's.
    silence: Duration,
    /// The round-trip time of the handshake.
    round_trip: Duration,
    /// The longest time that a caller has waited for a vote.
    longest_vote: Duration,
    /// The grants that replicas and disks must confirm, with their commands.
    pub(super) held: HeldGrants<(InFlight, Value)>,
    /// The deletes without a confirmation.
    pub(crate) pending: PendingDeletes,
    /// The number of seconds in which pending deletes were not sent again.
    pub(super) pending_for: u32,
    /// Whether it was logged that the server refuses deletes.
    pub(super) refusal_logged: bool,
    /// When the connection began, if the previous one may still exist. Deletes are then repeated until the keys have
    /// expired that it may still set.
    pub(super) unkilled: Option<Instant>,
    /// How many consecutive combined replies lacked most of their parts.
    pub(super) incomplete: u32,
    pub(super) target: Target,
    pub(super) push_handler: Arc<PushHandler>,
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
            silence: Duration::ZERO,
            round_trip,
            longest_vote: Duration::ZERO,
            held: HeldGrants::new(target.needs.durability),
            pending,
            pending_for: 0,
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

    /// Passes the consequences of the replies to the write half.
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
                let trusted = next.fits(&value) && !is_replicas(&value);
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
    pub(super) fn distrust(
        &mut self,
        members: Vec<InFlight>,
        value: &Value,
        now: Now<'_>,
    ) -> Fault {
        let fault = self.target.route.redact_fault(reply::unexpected(value));
        members.into_iter().for_each(|member| self.pending.fail(member, &fault, now()));
        fault
    }

    pub(crate) fn send_pending_deletes(&mut self) {
        self.followups.push(Followup::PendingDeletes(self.pending.take()));
    }

    /// Sends the pending deletes again after 1, 2, 4 and 8 seconds, then every 8. Called once per second.
    pub(crate) fn retry_deletes(&mut self, now: Instant) {
        if self.pending.is_empty() {
            return;
        }
        self.pending_for += 1;
        // Each delay is added to the previous ones.
        if matches!(self.pending_for, 1 | 3) || self.pending_for % 8 == 7 {
            self.pending.forget_expired(now);
            self.end_retries();
            self.send_pending_deletes();
        }
    }

    /// Lets the next pending delete be sent again after one second, if none is left and none is under way.
    pub(super) fn end_retries(&mut self) {
        if self.pending.is_empty() && !self.pending.link.has_deletes() {
            self.pending_for = 0;
        }
    }

    /// Records that something was read.
    pub(crate) fn end_silence(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// Whether nothing was read between the last two ticks.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence > TICK
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

    /// Ends the connection. If it broke, the commands without a reply fail with `fault`, and deletes among them become
    /// pending.
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
            open.into_iter().for_each(|in_flight| self.pending.fail(in_flight, fault, now));
        }
        (unsent_votes, self.pending)
    }
}
