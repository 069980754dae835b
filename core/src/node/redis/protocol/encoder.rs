//! The write half of a connection: decides which commands are sent, combines them, and encodes them.
//!
//! It appends each command to the expected replies before its bytes can be written. The order of both is the same. It
//! assigns each reply to its command, and shows which commands were never sent. The read half ([`super::decoder`])
//! changes the state of this half only by a [`Followup`].

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use foldhash::fast::FixedState;
use redis::Value;

use super::SILENCE;
use super::combined::{Batch, Expected, MAX_COMBINED, Request};
use super::command::{BatchKind, Command, Expects, InFlight, Purpose};
use super::confirm::ConfirmRequests;
use super::pending_deletes::UnsentVotes;
use super::push_handler::PushHandler;
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::scriptless::{Delete, converted_delete};
use crate::node::redis::commands::scripts;
use crate::node::redis::commands::scripts::ping;
use crate::node::redis::connect::Target;
use crate::node::redis::connect::login::Without;
use crate::node::redis::link::Link;

/// The number of unwritten bytes beyond which no more commands are taken, because the server does not read. A lower
/// limit would slow down bursts.
const FULL: usize = 4 << 20;

/// The consequence of a reply for the write half.
pub(super) enum Followup {
    /// Another command.
    Send(InFlight),
    /// The pending deletes are sent again.
    PendingDeletes(Vec<Command>),
    /// Commands of this kind are not combined any more.
    Separate(BatchKind),
    /// Deletes use a script from now on.
    DeleteByScript,
    /// The probe has its reply.
    Probed,
    /// The request for confirmation has its reply. Grants that it did not confirm need another one by this time.
    Confirmed(Option<Instant>),
    /// This vote had no effect, as if it was never sent.
    NeverSent(Command),
}

/// The write half of a connection.
pub(crate) struct Encoder {
    /// Whole commands, except for the first, which may be partly written.
    buffer: BytesMut,
    /// Commands of one kind, which are sent together as soon as another command follows or everything is written.
    batch: Batch,
    /// Keys that were released together with others.
    released: ReleasedKeys,
    /// Which kinds are combined. A kind that the server refused is excluded.
    combines: [bool; 3],
    /// The number of commands so far.
    count: u64,
    /// Whether a probe was sent after a silence and has no reply yet.
    probing: bool,
    /// The votes that replicas and disks must confirm.
    confirm: ConfirmRequests,
    /// Votes that were never sent, over any connection.
    unsent_votes: UnsentVotes,
    /// How the server deletes without a script, if that is used.
    deletes_by: Option<Delete>,
    /// What the server does not support.
    without: Without,
    link: Arc<Link>,
    push_handler: Arc<PushHandler>,
}

impl Encoder {
    /// Creates the write half of a new connection.
    pub(crate) fn new(
        target: &Target,
        unsent_votes: UnsentVotes,
        (deletes_by, without): (Option<Delete>, Without),
        link: Arc<Link>,
        push_handler: Arc<PushHandler>,
    ) -> Self {
        // Clusters only accept combined commands for keys in one slot.
        let mut combines = [target.cluster.is_none() && !without.digests; 3];
        combines[BatchKind::Attempts as usize] &= !link.has_long_values();
        Self {
            buffer: BytesMut::with_capacity(4096),
            batch: Batch::default(),
            released: ReleasedKeys::default(),
            combines,
            count: 0,
            probing: false,
            confirm: ConfirmRequests::new(target.needs.durability),
            unsent_votes,
            deletes_by,
            without,
            link,
            push_handler,
        }
    }

    /// Sends a command of the client, unless its caller is gone or the node must not vote. `last` means that no other
    /// command follows immediately.
    pub(crate) fn submit(
        &mut self,
        mut in_flight: InFlight,
        last: bool,
        now: Instant,
        expected: &mut Expected,
    ) {
        #[cfg(test)]
        crate::node::redis::tests::may_panic(&in_flight.command);
        if matches!(in_flight.command.purpose, Purpose::Ready) {
            let _ = in_flight.answer.send(Ok(Value::Okay));
            return;
        }
        let fault = self.guard_fault(&in_flight, now);
        // Without a caller, the vote would have to be deleted again.
        if fault.is_some() || in_flight.is_unwanted() {
            self.unsent_votes.not_sent(&mut in_flight);
            if let Some(fault) = fault {
                let _ = in_flight.answer.send(Err(fault));
            }
            return;
        }
        self.prepare(&mut in_flight, now);
        if last && !self.has_batch() {
            self.encode(in_flight, expected);
        } else {
            self.combine(in_flight, expected);
        }
    }

    /// Returns why this vote must not be sent, if so.
    ///
    /// Checked directly before sending, because the server may have restarted while the command waited for the
    /// connection.
    fn guard_fault(&self, in_flight: &InFlight, now: Instant) -> Option<Fault> {
        let first = matches!(in_flight.command.purpose, Purpose::FirstVote { .. });
        if first { self.link.guard_fault(|| in_flight.command.slot(), || now) } else { None }
    }

    /// Applies the consequence of a reply.
    pub(super) fn follow(&mut self, followup: Followup, now: Instant, expected: &mut Expected) {
        match followup {
            Followup::Send(in_flight) => self.send(in_flight, now, expected),
            Followup::PendingDeletes(commands) => {
                for command in commands {
                    // Not tracked, because the keys have probably expired and no caller waits for them.
                    let command = Command { untracked: true, ..command };
                    self.send(InFlight::without_caller(command), now, expected);
                }
                // After they are counted as under way, so that they are counted at every time.
                self.link.pending_deletes_sent();
            }
            Followup::Separate(kind) => self.combines[kind as usize] = false,
            Followup::DeleteByScript => self.deletes_by = None,
            Followup::Probed => self.probing = false,
            Followup::Confirmed(unconfirmed) => self.confirm.replied(unconfirmed),
            Followup::NeverSent(command) => self.unsent_votes.add(&command),
        }
    }

    /// Sends a command of the connection itself, or a repeated one.
    pub(crate) fn send(&mut self, mut in_flight: InFlight, now: Instant, expected: &mut Expected) {
        self.prepare(&mut in_flight, now);
        self.encode_batch(expected);
        self.encode(in_flight, expected);
    }

    /// Called for every command before it is encoded. From now on its vote may be on a key, and the server may push
    /// changes of its keys.
    fn prepare(&mut self, in_flight: &mut InFlight, now: Instant) {
        self.count += 1;
        if let Some(command) = converted_delete(&in_flight.command, self.deletes_by) {
            in_flight.command = command;
        }
        // Without tracking, no command needs the prefix that excludes it.
        in_flight.command.untracked &= !self.without.tracking;
        if self.without.digests
            && let Some(bytes) = scripts::in_full(in_flight.command.words())
        {
            // The next connection may combine commands again, but not in this form.
            (in_flight.command.bytes, in_flight.command.combinable) = (bytes, None);
        }
        self.unsent_votes.sending(in_flight);
        self.push_handler.count_reads(&in_flight.command.bytes);
        let Command { purpose, timeout, .. } = &in_flight.command;
        if matches!(purpose, Purpose::Delete { .. }) && !in_flight.again {
            self.link.delete_asked();
        }
        in_flight.confirm_by = self.confirm.sending(purpose, *timeout, now);
    }

    /// Adds a command to the batch, if it can be combined with others.
    fn combine(&mut self, in_flight: InFlight, expected: &mut Expected) {
        let combinable = in_flight.combinable().filter(|combinable| {
            // A key that we owned holds no foreign data, which would be read in full.
            let ours = || self.released.contains(combinable.parts(&in_flight.command).0);
            self.combines[combinable.kind as usize]
                && (combinable.kind != BatchKind::Attempts || ours())
        });
        if !self.batch.accepts(combinable.map(|combinable| combinable.kind)) {
            self.encode_batch(expected);
        }
        let Some(combinable) = combinable else { return self.encode(in_flight, expected) };
        // Without a waiting caller, the release only undoes a vote.
        if combinable.kind == BatchKind::Releases && !in_flight.answer.is_closed() {
            self.released.add(combinable.parts(&in_flight.command).0);
        }
        self.batch.add(in_flight, combinable);
        if self.batch.len() == MAX_COMBINED {
            self.encode_batch(expected);
        }
    }

    fn encode(&mut self, in_flight: InFlight, expected: &mut Expected) {
        self.buffer.extend_from_slice(in_flight.before());
        self.buffer.extend_from_slice(&in_flight.command.bytes);
        expected.push_back(Request::Single(in_flight));
    }

    fn encode_batch(&mut self, expected: &mut Expected) {
        match self.batch.take(&mut self.buffer) {
            Some(Request::Single(one)) => self.encode(one, expected),
            combined => expected.extend(combined),
        }
    }

    /// Sends a probe if the connection was idle for long. Other commands wait for its reply. `open` means that replies
    /// are outstanding.
    pub(crate) fn probe_if_idle(&mut self, open: bool, now: Instant, expected: &mut Expected) {
        if open || !self.link.is_idle(now) {
            self.link.set_used(now);
            return;
        }
        self.probing = true;
        let probe = Command { purpose: Purpose::Probe, ..ping() };
        self.send(InFlight::without_caller(probe), now, expected);
    }

    /// Whether commands must wait for the reply to a probe.
    pub(crate) fn is_probing(&self) -> bool {
        self.probing
    }

    /// Requests the confirmation of replicas and disks for the votes so far, if that is required.
    pub(crate) fn confirm(&mut self, now: impl Fn() -> Instant, expected: &mut Expected) {
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
        self.send(InFlight::without_caller(request), now(), expected);
    }

    /// Returns the number of commands so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is something to write.
    pub(crate) fn is_unwritten(&self) -> bool {
        !self.buffer.is_empty() || self.has_batch()
    }

    /// Whether commands wait in the batch.
    pub(crate) fn has_batch(&self) -> bool {
        self.batch.len() > 0
    }

    /// Whether the server reads fast enough for more commands.
    pub(crate) fn has_room(&self) -> bool {
        self.buffer.len() < FULL
    }

    /// Returns the bytes to write.
    pub(crate) fn bytes(&mut self, expected: &mut Expected) -> &[u8] {
        self.encode_batch(expected);
        &self.buffer
    }

    /// Removes bytes that were written.
    pub(crate) fn written(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
    }

    /// Ends the connection. Returns the commands without a reply in order.
    ///
    /// No byte of the last ones was written. Their votes are recorded as never sent, and the deletes of these votes are
    /// not needed. Bytes that TLS accepted count as sent.
    pub(crate) fn end(mut self, mut expected: Expected) -> (Vec<InFlight>, UnsentVotes) {
        self.encode_batch(&mut expected);
        // Bytes are written in order, so the remaining ones belong to the last commands.
        let (mut unwritten, mut sent) = (self.buffer.len(), expected.len());
        for last in expected.iter().rev() {
            let Some(left) = unwritten.checked_sub(last.length()) else { break };
            (unwritten, sent) = (left, sent - 1);
        }
        let mut open = Vec::new();
        for (at, request) in expected.into_iter().enumerate() {
            for mut in_flight in request.into_members() {
                if at >= sent {
                    self.unsent_votes.not_sent(&mut in_flight);
                }
                open.push(in_flight);
            }
        }
        (open, self.unsent_votes)
    }
}

/// The number of slots for released keys.
const SLOTS: usize = 4096;

/// Remembers keys that were released over a connection, by their hashes in a fixed number of slots.
///
/// A false result only costs time. No grant or refusal depends on it. Allocates memory with the first key.
#[derive(Default)]
struct ReleasedKeys(Vec<u32>);

impl ReleasedKeys {
    /// Remembers the key.
    fn add(&mut self, key: &[u8]) {
        if self.0.is_empty() {
            self.0 = vec![0; SLOTS];
        }
        let (slot, mark) = slot_and_mark(key);
        self.0[slot] = mark;
    }

    /// Whether the key is remembered.
    fn contains(&self, key: &[u8]) -> bool {
        let (slot, mark) = slot_and_mark(key);
        self.0.get(slot) == Some(&mark)
    }
}

/// Returns the slot of the key, and its mark, which is never zero.
fn slot_and_mark(key: &[u8]) -> (usize, u32) {
    let hash = FixedState::default().hash_one(key);
    let [slot, mark] =
        [hash % SLOTS as u64, hash >> 32].map(|part| u32::try_from(part).unwrap_or(0));
    (slot as usize, mark | 1)
}
