//! The end of a connection's protocol, at which commands without a reply fail and deletes become pending
//! ([`Protocol::into_pending`]), repeated deletes, silence, and the state that all this needs.
//!
//! [`super::sending`] and [`super::replies`] have the rest. The pending deletes outlive the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use redis::Value;

use super::combined::{Batch, Expected, ReleasedKeys, SentRequest};
use super::confirm::Confirmations;
use super::pending_deletes::PendingDeletes;
use super::push_handler::PushHandler;
use super::resp::Parser;
use super::{SILENCE, TICK};
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::capabilities::{Capabilities, Feature};
use crate::node::redis::commands::command::{BatchKind, Command, Purpose};
use crate::node::redis::protocol::Target;
use crate::node::redis::protocol::in_flight::InFlight;

/// The minimum time for the reply to a probe, and a multiple of the round-trip time, which a slow network needs. Probes
/// have a shorter limit than other commands, because callers wait and a new connection takes time.
const PROBE: (Duration, u32) = (Duration::from_millis(500), 3);

/// What the replies of one connection show about its server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Replies {
    /// Whether it ran a vote or a delete.
    pub(crate) voted: bool,
    /// Whether one does not fit its command, so that none can be trusted any more.
    pub(crate) distrusted: bool,
}

/// The protocol of one connection.
pub(crate) struct Protocol {
    /// Whole commands, except for the first, which may be partly written.
    pub(super) buffer: BytesMut,
    /// Commands of one kind, which are sent together as soon as another command follows or everything is written.
    pub(super) batch: Batch,
    /// Keys that were released together with others.
    pub(super) released: ReleasedKeys,
    /// Which kinds are combined. A kind that the server refused is excluded.
    pub(super) combines: [bool; 3],
    /// The number of commands so far.
    pub(super) count: u64,
    /// The requests without a reply.
    pub(super) expected: Expected,
    pub(super) replies: Replies,
    /// The bytes that are not parsed yet.
    pub(super) parser: Parser,
    /// Whether a probe was sent after a silence and has no reply yet.
    pub(super) probing: bool,
    /// How long nothing was read while replies were outstanding. It is counted in ticks, so that a pause of this
    /// process does not count as the server's.
    pub(super) silence: Duration,
    /// How long the server may take to reply to a probe.
    probe_limit: Duration,
    /// The grants that replicas and disks must confirm, with their commands.
    pub(super) confirm: Confirmations<(InFlight, Value)>,
    /// The deletes without a confirmation.
    pub(crate) pending: PendingDeletes,
    /// Whether it was logged that the server refuses deletes.
    pub(super) refusal_logged: bool,
    /// When the connection began, if the previous one may still exist. Deletes are then repeated until the keys have
    /// expired that it may still set.
    pub(super) unkilled: Option<Instant>,
    pub(super) supported: Capabilities,
    pub(super) target: Target,
    pub(super) push_handler: Arc<PushHandler>,
}

impl Protocol {
    /// Creates the state of a new connection, which continues after the handshake with this round-trip time. `unkilled`
    /// is its beginning, if the previous one may still exist.
    pub(crate) fn new(
        target: Target,
        parser: Parser,
        round_trip: Duration,
        pending: PendingDeletes,
        supported: Capabilities,
        unkilled: Option<Instant>,
        push_handler: Arc<PushHandler>,
    ) -> Self {
        // Clusters only accept combined commands for keys in one slot.
        let mut combines = [target.cluster.is_none() && supported.has(Feature::Digests); 3];
        combines[BatchKind::Attempts as usize] &= !pending.link.has_long_values();
        combines = combines.map(|combines| combines && supported.has(Feature::MGet));
        combines[BatchKind::Extends as usize] &= supported.has(Feature::Exists);
        Self {
            buffer: BytesMut::with_capacity(4096),
            batch: Batch::default(),
            released: ReleasedKeys::default(),
            combines,
            count: 0,
            expected: Expected::new(),
            replies: Replies::default(),
            parser,
            probing: false,
            silence: Duration::ZERO,
            probe_limit: (round_trip * PROBE.1).max(PROBE.0),
            confirm: Confirmations::new(target.needs.durability),
            pending,
            refusal_logged: false,
            unkilled,
            supported,
            target,
            push_handler,
        }
    }

    /// Whether replies are outstanding.
    pub(crate) fn is_open(&self) -> bool {
        !self.expected.is_empty() || self.has_batch()
    }

    /// What the replies so far show about the server.
    pub(crate) fn replies(&self) -> Replies {
        self.replies
    }

    /// Sends all pending deletes over a new connection.
    pub(crate) fn send_pending_deletes(&mut self, now: Instant) {
        let deletes = self.pending.take_for_connection();
        self.send_deletes(deletes, now);
    }

    /// Sends the pending deletes again if they are due. Called once per second.
    pub(crate) fn retry_deletes(&mut self, now: Instant) {
        if let Some(due) = self.pending.take_due(now) {
            self.send_deletes(due, now);
        }
    }

    fn send_deletes(&mut self, deletes: Vec<Command>, now: Instant) {
        for command in deletes {
            // Not tracked, because the keys have probably expired and no caller waits for them.
            let command = Command { untracked: true, ..command };
            self.send(InFlight::without_caller(command), now);
        }
        // After they are counted as under way, so that they are counted at every time.
        self.pending.link.pending_deletes_sent(None);
    }

    /// Records that something was read.
    pub(crate) fn end_silence(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// Whether nothing was read between the last two ticks.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence > TICK
    }

    /// Returns how long the server may be silent on this connection and on the one for notifications. A caller of an
    /// outstanding command may wait longer than the minimum, and the server then gets that time.
    pub(crate) fn silence_limit(&self) -> Duration {
        let open = self.expected.iter().flat_map(SentRequest::members);
        open.map(|open| open.command.timeout).max().unwrap_or_default().max(SILENCE)
    }

    /// Counts a tick in which nothing was read and replies were outstanding. Returns an error once the silence is too
    /// long.
    pub(crate) fn count_silence(&mut self) -> Option<Fault> {
        self.silence += TICK;
        let mut open = self.expected.iter().flat_map(SentRequest::members);
        if open.any(|open| matches!(open.command.purpose, Purpose::Probe)) {
            let forgotten = "the server does not reply on a connection that was idle";
            return (self.silence > self.probe_limit).then(|| Fault::new(forgotten));
        }
        let limit = self.silence_limit();
        (self.silence > limit + TICK).then(|| {
            Fault::new(format!("the server sent nothing for {:.1} s", limit.as_secs_f64()))
        })
    }

    /// Ends the connection. If it broke, the commands without a reply fail with `fault`, and deletes among them become
    /// pending.
    ///
    /// No byte of the last ones was written. Their votes are recorded as never sent, and the deletes of these votes are
    /// not needed. Bytes that TLS accepted count as sent.
    pub(crate) fn into_pending(mut self, fault: Option<&Fault>, now: Instant) -> PendingDeletes {
        let Some(fault) = fault else { return self.pending };
        self.encode_batch();
        for (in_flight, _) in self.confirm.drain_grants() {
            let _ = in_flight.reply_to.send(Err(fault.clone()));
        }
        // Bytes are written in order, so the remaining ones belong to the last commands.
        let (mut unwritten, mut sent) = (self.buffer.len(), self.expected.len());
        for last in self.expected.iter().rev() {
            let Some(left) = unwritten.checked_sub(last.length()) else { break };
            (unwritten, sent) = (left, sent - 1);
        }
        for (at, request) in self.expected.into_iter().enumerate() {
            for in_flight in request.into_members() {
                if at < sent {
                    self.pending.fail(in_flight, fault, now);
                } else {
                    self.pending.fail_unsent(in_flight, fault, now);
                }
            }
        }
        self.pending
    }
}
