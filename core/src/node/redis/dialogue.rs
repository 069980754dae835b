//! Implements the protocol of one connection: which commands are sent, and how replies are handled.
//!
//! It works with commands and values, and never waits. [`super::session`] moves the bytes and calls it.

mod chores;
mod together;

use std::sync::Arc;

use redis::Value;

use super::answers::{GIVEN_BACK, denied_delete, fits, given_back, leads_to, lost_scripts};
use super::commands::{ping, plain, without_time};
use super::confirm::Confirm;
use super::context::Context;
use super::debts::Retry;
use super::fallback::Without;
use super::hearer::Hearer;
use super::in_flight::{Command, InFlight, Purpose};
use super::link::VotesFrom;
use super::native::{Delete, respelled};
use super::pipeline::{Pipeline, Question};
use super::refusal::is_replicas;
use super::reply;
use super::script;
use super::steps::load_scripts;
use crate::clock::Instant;
use crate::node::Fault;

/// The protocol state of one connection.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub(super) struct Dialogue {
    /// The pending deletes, and the receivers of changes.
    pub(super) context: Context,
    /// The commands without a reply.
    pub(super) pipeline: Pipeline,
    /// The grants that replicas and disks must confirm.
    confirm: Confirm,
    /// When the connection began, if the previous one may still exist. Deletes are then repeated until the keys have
    /// expired that it may still set.
    unkilled: Option<Instant>,
    /// How the server deletes without a script, if that is used.
    deletes_by: Option<Delete>,
    /// What the server does not support.
    without: Without,
    /// Handles the pushes of the server.
    pub(super) hearer: Arc<Hearer>,
    /// Whether the age of the server could not be read, and may be readable later.
    ageless: bool,
    /// How often the chores were done.
    chores: u32,
    /// How many consecutive combined replies lacked most of their parts.
    odd: u32,
    /// When the pending deletes are sent again.
    retry: Retry,
    /// Whether it was logged that the server refuses deletes.
    refusal_said: bool,
    /// Why commands wait, if they do.
    pause: Option<Pause>,
}

/// Why the commands of a connection wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// A probe was sent after a silence and has no reply yet.
    Probe,
    /// Another connection is to replace this one.
    Replacement,
}

impl Dialogue {
    /// Creates the state of a new connection. `killed` means that no command of the previous one can arrive any more.
    pub(super) fn over(
        context: Context,
        killed: bool,
        deletes_by: Option<Delete>,
        without: Without,
    ) -> Self {
        let ageless = matches!(context.link.votes_from(), VotesFrom::Never) && !without.extras;
        let now = context.clock.now();
        let mut pipeline = Pipeline::new(context.target.outlet.is_none() && !without.digests);
        if context.link.has_long_values() {
            pipeline.stop_attempts();
        }
        let hearer = Arc::new(Hearer::new(Arc::clone(&context.clock), Arc::clone(&context.watch)));
        Self {
            confirm: Confirm::new(context.target.needs.durability),
            pipeline,
            unkilled: (!killed).then_some(now),
            deletes_by,
            without,
            hearer,
            ageless,
            chores: 0,
            retry: Retry::default(),
            odd: 0,
            refusal_said: false,
            pause: None,
            context,
        }
    }

    /// Sends the pending deletes, then the commands that waited for the connection.
    pub(super) fn begin(&mut self, waiting: Vec<InFlight>) {
        // The deletes come first. Otherwise a new vote for the same key would be refused by the old one.
        self.pay_debts();
        waiting.into_iter().for_each(|command| self.take(command));
    }

    /// Whether commands must wait, because a probe was sent after a silence and has no reply yet.
    pub(super) fn is_probing(&self) -> bool {
        self.pause == Some(Pause::Probe)
    }

    /// Lets all further commands wait for another connection.
    pub(super) fn leave(&mut self) {
        self.pause = Some(Pause::Replacement);
    }

    /// Whether another connection is to replace this one.
    pub(super) fn is_leaving(&self) -> bool {
        self.pause == Some(Pause::Replacement)
    }

    /// Whether commands must wait, for the reply to a probe or for another connection.
    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Sends a probe if there are commands and the connection was idle for long.
    pub(super) fn probe_if_idle(&mut self) {
        if self.is_paused() || self.context.commands.is_empty() {
            return;
        }
        let now = self.context.clock.now();
        if self.pipeline.is_open() || !self.context.link.is_idle(now) {
            self.context.link.set_used(now);
            return;
        }
        self.pause = Some(Pause::Probe);
        self.ask(InFlight::unheard(Command { purpose: Purpose::Probe, ..ping() }));
    }

    /// Sends a command of the client, unless its caller is gone or the node must not vote.
    pub(super) fn take(&mut self, in_flight: InFlight) {
        #[cfg(test)]
        super::tests::may_panic(&in_flight.command);
        if matches!(in_flight.command.purpose, Purpose::Ready) {
            let _ = in_flight.answer.send(Ok(Value::Okay));
            return;
        }
        // Without a caller, the vote would have to be deleted again.
        if in_flight.is_unwanted() {
            self.context.debts.never_sent(&in_flight.command);
            return;
        }
        if let Some(fault) = self.context.guard_fault(&in_flight) {
            self.context.debts.never_sent(&in_flight.command);
            let _ = in_flight.answer.send(Err(fault));
            return;
        }
        self.ask(in_flight);
    }

    /// Sends a command. Every command passes through here. From now on its vote may be on a key, and the server may
    /// push changes of its keys.
    pub(super) fn ask(&mut self, mut in_flight: InFlight) {
        if let Some(command) = respelled(&in_flight.command, self.deletes_by) {
            in_flight.command = command;
        }
        if self.without.extras
            && let Some(command) = without_time(&in_flight.command)
        {
            in_flight.command = command;
        }
        // Without tracking, no command needs the prefix that excludes it.
        in_flight.command.untracked &= !self.without.tracking;
        if self.without.digests
            && let Some(bytes) = script::in_full(in_flight.command.words())
        {
            in_flight.command.bytes = bytes;
        }
        self.context.debts.sending(&in_flight.command);
        self.hearer.asked(&in_flight.command.bytes);
        if matches!(in_flight.command.purpose, Purpose::Delete { .. }) && !in_flight.again {
            self.context.link.delete_asked();
        }
        let (clock, Command { purpose, timeout, .. }) = (&self.context.clock, &in_flight.command);
        in_flight.confirm_by = self.confirm.sending(purpose, *timeout, || clock.now());
        self.pipeline.add(in_flight, self.context.commands.is_empty());
    }

    /// Requests the confirmation of replicas and disks for the votes so far, if that is required.
    pub(super) fn ask_to_confirm(&mut self) {
        if let Some(question) = self.confirm.question(|| self.context.clock.now()) {
            self.ask(InFlight::unheard(question));
        }
    }

    /// Sends the pending deletes. They are not tracked, because the keys have probably expired and no caller waits for
    /// them.
    fn pay_debts(&mut self) {
        for command in self.context.debts.take() {
            self.ask(InFlight::unheard(Command { untracked: true, ..command }));
        }
        self.context.link.paying();
    }

    /// Handles the next reply. Returns an error if it fits no command, because no further reply of this connection can
    /// be trusted.
    pub(super) fn answered(&mut self, value: Value) -> Option<Fault> {
        if let Some(next) = self.pipeline.next_of_many() {
            if reply::sets(&value) && !is_replicas(&value) {
                next.set = Some(value == Value::Okay);
                return None;
            }
            let members = self.pipeline.next().map(Question::into_members);
            return Some(self.distrusts(members.unwrap_or_default(), &value));
        }
        let mut in_flight = match self.pipeline.next() {
            Some(Question::Alone(in_flight)) => in_flight,
            Some(Question::Together(group)) => return self.answered_together(group, value),
            None => return Some(Fault::new("the server sent a reply without a command")),
        };
        // A read-only error comes from a replica that was the primary before. Another server is now the primary, and
        // this one would refuse all deletes.
        if !fits(&in_flight, &value) || is_replicas(&value) {
            let fault = self.context.target.route.redact_fault(reply::unexpected(&value));
            self.context.refuse(in_flight, &fault);
            return Some(fault);
        }
        let Some(value) = in_flight.whole(value) else {
            // Put in front again, because its next reply follows.
            self.pipeline.put_back(in_flight);
            return None;
        };
        if given_back(&in_flight, &value, self.giving_back()) {
            self.context.refuse(in_flight, &Fault::new(GIVEN_BACK));
            return None;
        }
        let denied = denied_delete(&in_flight, &value, self.context.target.needs.scripts);
        self.deletes_by = self.deletes_by.filter(|_| !denied);
        if denied || lost_scripts(&in_flight, &value) {
            // A round drops its replies before it sends its deletes, so a command with a waiting caller has no delete
            // ahead of it.
            self.load_scripts();
            (in_flight.again, in_flight.set) = (true, None);
            self.ask(in_flight);
        } else if let Some(in_flight) = self.context.send_on(in_flight, &value) {
            self.deliver(in_flight, value);
        }
        None
    }

    /// Returns the tokens of all releases without a reply.
    fn giving_back(&self) -> impl Iterator<Item = &Arc<str>> {
        let any = self.context.link.has_deletes();
        let open = self.pipeline.open().take_while(move |_| any);
        open.filter_map(|open| match &open.command.purpose {
            Purpose::Delete { token, .. } => Some(token),
            _ => None,
        })
    }

    fn load_scripts(&mut self) {
        let load = |load| self.ask(InFlight::unheard(plain(&load, Purpose::Plain)));
        load_scripts().for_each(load);
    }

    /// Delivers a reply to the caller.
    fn deliver(&mut self, in_flight: InFlight, value: Value) {
        if matches!(in_flight.command.purpose, Purpose::Delete { .. }) {
            if let Some(fault) = self.refused_delete(&value) {
                self.context.refuse(in_flight, &fault);
                // Counted after the delete is recorded as pending, so that it is counted at every time.
                self.context.link.delete_answered();
                return;
            }
            self.context.link.delete_answered();
        }
        if let Some(next) = leads_to(&in_flight, &value) {
            let keys = in_flight.command.forced_keys();
            self.ask(in_flight.followed_by(next));
            // The server does not notify the connection that deleted. Commands that are sent now follow the delete.
            self.context.watch.changed_keys(&keys);
            return;
        }
        match (&in_flight.command.purpose, self.unkilled) {
            (Purpose::Age, _) => self.read_age(&value),
            (Purpose::Probe, _) => {
                self.pause = self.pause.filter(|pause| *pause != Pause::Probe);
                self.context.link.set_used(self.context.clock.now());
            }
            (Purpose::Confirm, _) => self.confirm.answered(&value, self.context.clock.now()),
            // A command of the previous connection may still arrive after this delete.
            (Purpose::Delete { owed, .. }, Some(opened))
                if opened + *owed > self.context.clock.now() =>
            {
                self.context.debts.owe_again(in_flight.command.clone(), opened);
            }
            _ => {}
        }
        self.confirm.deliver(in_flight, value);
    }

    /// Returns why the server did not carry out a delete. The delete stays pending: the server may be busy, unable to
    /// write, or lack a right for now. Returns `None` if it was carried out, or if the error means that the key is not
    /// a lock's key on this server.
    fn refused_delete(&mut self, answer: &Value) -> Option<Fault> {
        if !matches!(answer, Value::ServerError(_)) {
            return None;
        }
        let fault = self.context.target.route.redact_fault(reply::unexpected(answer));
        if fault.permanent().is_some() {
            return None;
        }
        let now = self.context.clock.now();
        if !std::mem::replace(&mut self.refusal_said, true)
            && let Some(omitted) = self.context.refused_deletes.admit(now)
        {
            self.context.warn(&format_args!(
                "a released key is not deleted yet, retrying until its TTL ends: {fault}{omitted}"
            ));
        }
        if self.context.debts.is_empty() {
            self.retry = Retry::default();
        }
        Some(fault)
    }

    /// Handles the end of the connection. Commands without a reply fail. The deletes of votes that were never sent are
    /// not kept.
    pub(super) fn broken(&mut self, fault: &Fault) {
        self.confirm.broken(fault);
        // All unsent votes are recorded before any delete can become pending.
        let mut open: Vec<_> = self.pipeline.end().collect();
        for (in_flight, _) in open.iter().filter(|(_, sent)| !sent) {
            self.context.debts.never_sent(&in_flight.command);
        }
        for (in_flight, _) in open.drain(..) {
            self.context.refuse(in_flight, fault);
        }
    }
}
