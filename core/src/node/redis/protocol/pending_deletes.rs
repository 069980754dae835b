//! Keeps the deletes that no server has confirmed: those without a reply, those that were refused and those that could
//! not be sent. Fails each command without a reply.
//!
//! Without a reply it is unknown whether the server ran the command. A vote then counts as failed, and the acquire that
//! sent it sends a delete. A delete stays pending, and the next connection sends it before anything else. Otherwise the
//! vote could stay on the server for a whole TTL, or arrive later, and would keep all clients out. The delete of a vote
//! that was never sent is not kept, so that it cannot displace others.
//!
//! A caller that retries while the path to its server is broken fails again and again. Its deletes are merged into one,
//! which names the token of each attempt. If there are too many, the deletes of failed votes are dropped first, because
//! the key of a released lease certainly exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use super::merged_deletes::{is_of_lease, memory, merged, target};
use super::unsent_votes::UnsentVotes;
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::protocol::in_flight::InFlight;
use crate::node::redis::protocol::redirects::{ClusterSender, ConnectionEvent};
use crate::node::redis::state::link::Link;
use crate::runtime::environment;
use crate::telemetry::Throttle;

/// The maximum number of pending deletes, one for each set of keys. A client reaches it if a server is down for long.
const MAX_PENDING_DELETES: usize = 10_000;
/// The maximum memory of pending deletes, in bytes. A lock may have many long names.
const MAX_PENDING_BYTES: usize = 16 << 20;

/// The pending deletes of one node, across reconnects.
pub(crate) struct PendingDeletes {
    /// By their keys, so that one delete is kept for each set of keys. In their order, which a simulation can repeat.
    deletes: BTreeMap<Vec<u8>, Command>,
    /// The memory that they take.
    bytes: usize,
    /// The number of seconds in which the deletes were not sent again.
    waited: u32,
    /// Shares with the node how long deletes are pending.
    pub(crate) link: Arc<Link>,
    /// Sends events to the cluster of the node, if there is one.
    cluster: Option<ClusterSender>,
    /// The votes whose deletes are not needed.
    pub(crate) unsent_votes: UnsentVotes,
    /// Limits the log records about refused deletes.
    pub(super) refusals: Throttle,
}

impl PendingDeletes {
    pub(crate) fn new(link: Arc<Link>, cluster: Option<ClusterSender>) -> Self {
        let (deletes, unsent_votes, refusals) = Default::default();
        Self { deletes, bytes: 0, waited: 0, link, cluster, unsent_votes, refusals }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deletes.is_empty()
    }

    /// Whether a delete is pending whose keys may still exist, or may be set again.
    pub(crate) fn has_unexpired(&self, now: Instant) -> bool {
        self.deletes
            .values()
            .any(|command| command.purpose.until().is_some_and(|until| until > now))
    }

    /// Fails a command without a reply. It is unknown whether the server ran it. A delete becomes pending, unless its
    /// vote was never sent.
    pub(crate) fn fail(&mut self, in_flight: InFlight, fault: &Fault, now: Instant) {
        let is_delete = in_flight.is_delete();
        let InFlight { command, redirects, unneeded, reply_to, .. } = in_flight;
        if is_delete && !unneeded {
            if let Some(cluster) = &self.cluster {
                cluster.send(ConnectionEvent::DeletePending(command.clone(), redirects));
            }
            if let Some(until) = self.add(command, now) {
                self.link.add_pending_delete(until);
            }
        }
        let _ = reply_to.send(Err(fault.clone()));
    }

    /// Fails a command that was not sent. A vote that was never sent created no key, so its delete is not needed.
    pub(crate) fn fail_unsent(&mut self, mut in_flight: InFlight, fault: &Fault, now: Instant) {
        self.unsent_votes.not_sent(&mut in_flight);
        self.fail(in_flight, fault, now);
    }

    /// Keeps a delete whose reply was not read or that could not be sent. Returns until when its keys may exist.
    ///
    /// Without a connection it is kept beyond `until`, because a frozen server may run the vote at any time. Once
    /// another connection has sent it, or once the client is gone, it is dropped then ([`Self::forget_expired`]).
    pub(crate) fn add(&mut self, mut command: Command, now: Instant) -> Option<Instant> {
        let Purpose::Delete { lifetime, until, .. } = &mut command.purpose else { return None };
        // Measured from the first time, so that repeated failures do not extend it forever.
        let until = *until.get_or_insert(now + *lifetime);
        self.insert_merged(command);
        Some(until)
    }

    /// Adds a delete of a server that does not own its key any more, unless its vote was never sent.
    pub(crate) fn add_moved(&mut self, command: Command, now: Instant) {
        if !self.unsent_votes.has_vote_of(&command) {
            self.add(command, now);
        }
    }

    /// Whether a delete stays pending after this error of its server, which may be busy, unable to write, or lack a
    /// right for now. After other errors the key is not a lock's key on this server.
    pub(super) fn stays_after(fault: &Fault) -> bool {
        fault.permanent().is_none()
    }

    /// Called after the server carried out a delete. `unkilled` is when its connection was opened, if the previous one
    /// may still exist. A command of that one may set the key again, so the delete is kept for its lifetime.
    pub(super) fn carried_out(
        &mut self,
        command: &Command,
        unkilled: Option<Instant>,
        now: impl Fn() -> Instant,
    ) {
        let Purpose::Delete { lifetime, .. } = command.purpose else { return };
        let end = unkilled.map(|opened| opened + lifetime).filter(|end| *end > now());
        let Some(end) = end else { return self.end_wait() };
        let mut command = command.clone();
        if let Purpose::Delete { until, .. } = &mut command.purpose {
            *until = Some(end);
        }
        self.insert_merged(command);
    }

    /// Lets the next delete be sent again after one second, if none is left and none is under way.
    fn end_wait(&mut self) {
        if self.is_empty() && !self.link.has_deletes() {
            self.waited = 0;
        }
    }

    /// Keeps a delete, merged with an earlier one of the same keys.
    fn insert_merged(&mut self, command: Command) {
        let target = target(&command);
        let command = match self.deletes.remove(&target) {
            Some(earlier) => {
                self.bytes -= memory(&earlier);
                merged(&earlier, command)
            }
            None => command,
        };
        self.bytes += memory(&command);
        self.deletes.insert(target, command);
        let most = environment::limit(MAX_PENDING_DELETES);
        if self.deletes.len() > most || self.bytes > MAX_PENDING_BYTES {
            self.displace(most - most / 8);
        }
    }

    /// Drops deletes until this number is left, an eighth fewer than the maximum, because a search for each single one
    /// would take long. Those of failed votes come first, and among them those whose keys expire first.
    fn displace(&mut self, left: usize) {
        let order = |(target, one): (&Vec<u8>, &Command)| {
            (is_of_lease(one), one.purpose.until(), target.clone())
        };
        let mut order: Vec<_> = self.deletes.iter().map(order).collect();
        order.sort_unstable();
        for (_, _, target) in order {
            let fits = self.deletes.len() <= left && self.bytes <= MAX_PENDING_BYTES / 8 * 7;
            if fits || self.deletes.len() == 1 {
                break;
            }
            let dropped = self.deletes.remove(&target);
            self.bytes -= dropped.as_ref().map_or(0, memory);
        }
    }

    /// Takes the deletes to send over a new connection, all of them.
    pub(crate) fn take_for_connection(&mut self) -> Vec<Command> {
        self.waited = 0;
        self.take_all()
    }

    /// Takes the deletes to send again over an open connection: all of them after 1, 2, 4 and 8 seconds, then every 8.
    /// Called once per second.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Vec<Command>> {
        if self.is_empty() {
            return None;
        }
        self.waited += 1;
        // Each delay is added to the previous ones.
        if !matches!(self.waited, 1 | 3) && self.waited % 8 != 7 {
            return None;
        }
        self.forget_expired(now);
        self.end_wait();
        Some(self.take_all())
    }

    /// Takes all pending deletes, those of leases first. Those that fail are added again.
    pub(crate) fn take_all(&mut self) -> Vec<Command> {
        self.bytes = 0;
        let (of_leases, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.deletes).into_values().partition(is_of_lease);
        of_leases.into_iter().chain(others).collect()
    }

    /// Drops the deletes whose keys must have expired, unless a vote arrived later. After the client is gone, no
    /// connection remains that could delete the key of such a vote.
    pub(crate) fn forget_expired(&mut self, now: Instant) {
        self.deletes.retain(|_, command| command.purpose.until().is_some_and(|until| until > now));
        self.bytes = self.deletes.values().map(memory).sum();
    }
}

/// The commands of a node without a connection, and the pending deletes. An open connection takes it and returns it at
/// its end.
pub(crate) struct Backlog {
    /// The commands of the node. Closed once everything is gone that could send one.
    pub(crate) commands: UnboundedReceiver<InFlight>,
    /// Deletes without a confirmation, and the votes whose deletes are not needed.
    pub(crate) pending: PendingDeletes,
}

impl Backlog {
    /// Returns the backlog. Must not be called while a connection uses it.
    pub(crate) fn available(context: &mut Option<Self>) -> &mut Self {
        context.as_mut().expect("a connection has the backlog")
    }

    /// Lets a command wait for a connection.
    pub(crate) fn wait(&mut self, mut in_flight: InFlight, waiting: &mut Vec<InFlight>) {
        self.pending.unsent_votes.waiting(&mut in_flight);
        waiting.push(in_flight);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::merged_deletes::tests::{release, tokens};
    use super::*;
    use crate::node::Claim;
    use crate::node::redis::commands::command::Expects;
    use crate::node::redis::commands::scripts::release_script;

    const TTL: Duration = Duration::from_secs(10);

    pub(crate) fn command(bytes: &str, purpose: Purpose) -> Command {
        let (bytes, expects) = (bytes.to_owned().into(), Expects::Anything);
        Command { timeout: TTL, ..Command::new(bytes, expects, purpose) }
    }

    pub(crate) fn delete(token: &str) -> Command {
        command(token, Purpose::delete(token.into(), TTL))
    }

    #[test]
    fn records_a_sent_claim_once() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        for token in ["a", "b", "a"] {
            assert_eq!(pending.add(delete(token), now), Some(now + TTL));
        }
        let mut bytes: Vec<_> =
            pending.take_all().into_iter().map(|command| command.bytes).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [b"a", b"b"]);
        assert!(pending.is_empty());
    }

    #[test]
    fn deletes_are_sent_again_after_1_2_4_8_seconds_and_then_every_8() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        for _ in 0..2 {
            let mut due = Vec::new();
            for second in 1..=32 {
                pending.add(delete("a"), now);
                if pending.take_due(now).is_some() {
                    due.push(second);
                }
            }
            assert_eq!(due, [1, 3, 7, 15, 23, 31]);
            // A new connection sends them at once, and the delays begin again.
            pending.add(delete("a"), now);
            assert_eq!(pending.take_for_connection().len(), 1);
        }
        assert!(pending.take_due(now).is_none(), "none is pending");
    }

    #[test]
    fn a_delete_that_was_carried_out_is_kept_while_the_previous_connection_may_exist() {
        let now = Instant::from_start(TTL * 10);
        for (opened, until) in [
            (None, None),
            (Some(now - TTL), None),
            (Some(now - TTL / 2), Some(now + TTL / 2)),
            (Some(now), Some(now + TTL)),
        ] {
            let mut pending = PendingDeletes::new(Arc::default(), None);
            pending.carried_out(&delete("a"), opened, || now);
            let kept = pending.take_all().pop();
            assert_eq!(kept.and_then(|command| command.purpose.until()), until, "{opened:?}");
        }
    }

    #[test]
    fn callers_that_retry_displace_no_released_key() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        let long = "x".repeat(200);
        for at in 0..20 {
            pending.add(release(&format!("released-{at}"), "lease", true), now);
        }
        for round in 0..10 {
            for caller in 0..20_000 {
                let (key, token) = (format!("{long}-{caller}"), format!("{round}-{caller}"));
                pending.add(release(&key, &token, false), now + TTL);
            }
            assert!(pending.deletes.len() <= MAX_PENDING_DELETES, "one for each set of keys");
            let bytes = pending.deletes.values().map(memory).sum::<usize>();
            assert!(bytes == pending.bytes && bytes <= MAX_PENDING_BYTES, "{bytes} bytes");
        }
        let all = pending.take_all();
        assert!(all[..20].iter().all(is_of_lease), "deletes of leases are sent first");
        assert_eq!(all.iter().filter(|delete| is_of_lease(delete)).count(), 20);
        // An attempt of a caller whose earlier deletes were not displaced is merged with them.
        assert!(all.iter().any(|delete| tokens(delete).len() > 1));
    }

    #[test]
    fn deletes_of_many_names_take_a_bounded_amount_of_memory() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        for number in 0..300 {
            let keys: Arc<[String]> =
                (0..1_000).map(|at| format!("{number}-{at}-{:->190}", "")).collect();
            let claim = Claim::of_owner(number.to_string().into(), keys);
            pending.add(release_script(&claim, TTL, None), now);
            let bytes = pending.deletes.iter().map(|(target, one)| target.len() + one.bytes.len());
            assert!(bytes.sum::<usize>() <= MAX_PENDING_BYTES);
        }
        assert!(pending.deletes.len() > 20);
    }

    #[test]
    fn evicts_what_expires_first_and_expires_only_on_demand() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        // The newest ones expire first. Some of them do at the same time.
        let at = |at: usize| now + Duration::from_millis(((MAX_PENDING_DELETES - at) / 3) as u64);
        for number in 0..MAX_PENDING_DELETES {
            pending.add(delete(&number.to_string()), at(number));
        }
        assert_eq!(pending.add(delete("another"), now + TTL), Some(now + TTL + TTL));
        let all = pending.take_all();
        assert_eq!(all.len(), MAX_PENDING_DELETES / 8 * 7);
        let until = all.iter().filter(|one| one.bytes != b"another").map(|one| one.purpose.until());
        let dropped = MAX_PENDING_DELETES / 8 + 1;
        assert!(until.min().unwrap() >= Some(at(MAX_PENDING_DELETES - dropped) + TTL));
        // A delete that fails again keeps its time limit.
        pending.add(delete("another"), now);
        let again = pending.take_all().remove(0);
        pending.add(again, now + TTL / 2);
        pending.forget_expired(now + TTL / 2);
        assert!(!pending.is_empty());
        pending.forget_expired(now + TTL);
        assert!(pending.is_empty());
    }
}
