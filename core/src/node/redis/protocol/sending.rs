//! Decides which commands are sent, combines them, and encodes them.
//!
//! Each command is appended to the expected replies before its bytes can be written. The order of both is the same. It
//! assigns each reply to its command, and shows which commands were never sent.

use bytes::Buf;
use redis::Value;
use tokio::sync::oneshot;

use super::SILENCE;
use super::combined::{MAX_COMBINED, SentRequest};
use super::state::Protocol;
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Feature;
use crate::node::redis::commands::command::{BatchKind, Command, Expects, Purpose};
use crate::node::redis::commands::scripts;
use crate::node::redis::commands::scripts::{PING, ping};
use crate::node::redis::protocol::in_flight::InFlight;
use crate::runtime::is_ending;

/// The number of unwritten bytes beyond which no more commands are taken, because the server does not read. A lower
/// limit would slow down bursts.
const FULL: usize = 4 << 20;

/// The error of an acquire while the process ends.
const PROCESS_ENDS: &str = "the process ends";

impl Protocol {
    /// Sends a command of the client, unless its caller is gone or the node must not vote. `last` means that no other
    /// command follows immediately.
    pub(crate) fn submit(&mut self, mut in_flight: InFlight, last: bool, now: Instant) {
        #[cfg(test)]
        crate::node::redis::tests::may_panic(&in_flight.command);
        if matches!(in_flight.command.purpose, Purpose::Ready) {
            let _ = in_flight.reply_to.send(Ok(Value::Okay));
            return;
        }
        let fault = self.guard_fault(&in_flight, now);
        // Without a caller, the vote would have to be deleted again.
        if fault.is_some() || in_flight.is_unwanted() {
            self.pending.unsent_votes.not_sent(&mut in_flight);
            if let Some(fault) = fault {
                let _ = in_flight.reply_to.send(Err(fault));
            }
            return;
        }
        self.prepare(&mut in_flight, now);
        if last && !self.has_batch() {
            self.encode(in_flight);
        } else {
            self.combine(in_flight);
        }
    }

    /// Returns why this vote must not be sent, if so.
    ///
    /// Checked directly before sending, because the server may have restarted while the command waited for the
    /// connection.
    fn guard_fault(&self, in_flight: &InFlight, now: Instant) -> Option<Fault> {
        let first = matches!(in_flight.command.purpose, Purpose::FirstVote { .. });
        if first && is_ending() {
            Some(Fault::new(PROCESS_ENDS))
        } else if first {
            self.pending.link.guard.vote_fault(|| in_flight.command.slot(), || now)
        } else {
            None
        }
    }

    /// Fails the first votes in flight and deletes their keys, because the process ends. Their callers may never run
    /// again, so they cannot do it.
    pub(crate) fn cancel_votes(&mut self, now: Instant) {
        self.encode_batch();
        let mut deletes = Vec::new();
        // Grants that wait for replicas or disks have no request any more. Extensions among them have no result now.
        let mut held: Vec<_> = self.confirm.drain_grants().map(|(vote, _)| vote).collect();
        let in_flight = self.expected.iter_mut().flat_map(SentRequest::members_mut);
        for vote in held.iter_mut().chain(in_flight) {
            let Purpose::FirstVote { token, .. } = &vote.command.purpose else { continue };
            // A caller that gave up has sent the delete.
            if vote.reply_to.is_closed() {
                continue;
            }
            deletes.push(scripts::undo(&vote.command, token, SILENCE));
            let reply_to = std::mem::replace(&mut vote.reply_to, oneshot::channel().0);
            let _ = reply_to.send(Err(Fault::new(PROCESS_ENDS)));
        }
        for extension in held {
            let _ = extension.reply_to.send(Err(Fault::new(PROCESS_ENDS)));
        }
        for delete in deletes {
            self.send(InFlight::without_caller(delete), now);
        }
    }

    /// Sends a command of the connection itself, or a repeated one.
    pub(crate) fn send(&mut self, mut in_flight: InFlight, now: Instant) {
        self.prepare(&mut in_flight, now);
        self.encode_batch();
        self.encode(in_flight);
    }

    /// Called for every command before it is encoded. From now on its vote may be on a key, and the server may push
    /// changes of its keys.
    fn prepare(&mut self, in_flight: &mut InFlight, now: Instant) {
        self.count += 1;
        let supported = self.supported;
        if !supported.has(Feature::GetRange)
            && let Some(command) = scripts::attempt_by_script(&in_flight.command)
        {
            in_flight.command = command;
        }
        if in_flight.command.bytes == PING {
            in_flight.command.bytes = supported.probe().to_vec();
        }
        // Without tracking, no command needs the prefix that excludes it.
        in_flight.command.untracked &=
            supported.has(Feature::Tracking) && supported.has(Feature::Caching);
        if !supported.has(Feature::Digests)
            && let Some(bytes) = scripts::in_full(in_flight.command.words())
        {
            // The next connection may combine commands again, but not in this form.
            (in_flight.command.bytes, in_flight.command.combinable) = (bytes, None);
        }
        self.pending.unsent_votes.sending(in_flight);
        self.push_handler.count_reads(&in_flight.command.bytes);
        let Command { purpose, timeout, .. } = &in_flight.command;
        in_flight.confirm_by = self.confirm.sending(purpose, *timeout, now);
        in_flight.count(self.pending.link.deletes());
    }

    /// Adds a command to the batch, if it can be combined with others.
    fn combine(&mut self, in_flight: InFlight) {
        let combinable = in_flight.combinable().filter(|combinable| {
            // A key that we owned holds no foreign data, which would be read in full.
            let ours = || self.released.contains(combinable.parts(&in_flight.command).0);
            self.combines[combinable.kind as usize]
                && (combinable.kind != BatchKind::Attempts || ours())
        });
        if !self.batch.accepts(combinable.map(|combinable| combinable.kind)) {
            self.encode_batch();
        }
        let Some(combinable) = combinable else { return self.encode(in_flight) };
        // Without a waiting caller, the release only undoes a vote.
        if combinable.kind == BatchKind::Releases && !in_flight.reply_to.is_closed() {
            self.released.add(combinable.parts(&in_flight.command).0);
        }
        self.batch.add(in_flight);
        if self.batch.len() == MAX_COMBINED {
            self.encode_batch();
        }
    }

    fn encode(&mut self, in_flight: InFlight) {
        self.buffer.extend_from_slice(in_flight.before());
        self.buffer.extend_from_slice(&in_flight.command.bytes);
        self.expected.push_back(SentRequest::Single(in_flight));
    }

    pub(super) fn encode_batch(&mut self) {
        match self.batch.take(&mut self.buffer) {
            Some(SentRequest::Single(one)) => self.encode(one),
            combined => self.expected.extend(combined),
        }
    }

    /// Sends a probe if the connection was idle for long. Other commands wait for its reply. `open` means that replies
    /// are outstanding.
    pub(crate) fn probe_if_idle(&mut self, open: bool, now: Instant) {
        if open || !self.pending.link.is_idle(now) {
            self.pending.link.set_used(now);
            return;
        }
        self.probing = true;
        let probe = Command { purpose: Purpose::Probe, ..ping() };
        self.send(InFlight::without_caller(probe), now);
    }

    /// Whether commands must wait for the reply to a probe.
    pub(crate) fn is_probing(&self) -> bool {
        self.probing
    }

    /// Requests the confirmation of replicas and disks for the votes so far, if that is required.
    pub(crate) fn request_confirmation(&mut self, now: impl Fn() -> Instant) {
        let Some(time) = self.confirm.due(&now) else { return };
        let wanted = self.confirm.wanted;
        let request = Command {
            // The server may be silent for the whole time of the request.
            timeout: time + SILENCE,
            ..Command::new(
                wanted.question(time).get_packed_command(),
                Expects::Durable(wanted),
                Purpose::Confirm,
            )
        };
        self.send(InFlight::without_caller(request), now());
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_unwritten(&self) -> bool {
        !self.buffer.is_empty() || self.has_batch()
    }

    pub(crate) fn has_batch(&self) -> bool {
        self.batch.len() > 0
    }

    /// Whether the server reads fast enough for more commands.
    pub(crate) fn has_room(&self) -> bool {
        self.buffer.len() < FULL
    }

    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.encode_batch();
        &self.buffer
    }

    pub(crate) fn written(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
    }
}
