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

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use super::merged_deletes::{is_of_lease, memory, merged, target};
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
/// The maximum number of unsent votes to remember. At this number the older half is forgotten. The delete of a
/// forgotten one is kept needlessly.
const MAX_UNSENT_VOTES: usize = 32_768;

/// The pending deletes of one node, across reconnects.
pub(crate) struct PendingDeletes {
    /// By their keys, so that one delete is kept for each set of keys. In their order, which a simulation can repeat.
    deletes: BTreeMap<Vec<u8>, Command>,
    /// The memory that they take.
    bytes: usize,
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
        Self { deletes, bytes: 0, link, cluster, unsent_votes, refusals }
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
        self.keep(command);
        Some(until)
    }

    /// Keeps a delete that succeeded. A command of the previous connection may set its key again until this time after
    /// `opened`.
    pub(super) fn repeat(&mut self, mut command: Command, opened: Instant) {
        if let Purpose::Delete { lifetime, until, .. } = &mut command.purpose {
            *until = Some(opened + *lifetime);
            self.keep(command);
        }
    }

    /// Keeps a delete, merged with an earlier one of the same keys.
    fn keep(&mut self, command: Command) {
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

    /// Takes all pending deletes, those of leases first. Those that fail are added again.
    pub(crate) fn take(&mut self) -> Vec<Command> {
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

/// The tokens of votes that were never sent, which have nothing to delete.
#[derive(Default)]
pub(crate) struct UnsentVotes {
    newer: HashSet<Arc<str>>,
    older: HashSet<Arc<str>>,
}

impl UnsentVotes {
    /// Records that a vote is not sent. This does not apply to the second command of a vote, because the first one was
    /// sent.
    pub(crate) fn add(&mut self, command: &Command) {
        if let Purpose::FirstVote { token, sent: false } = &command.purpose {
            if self.newer.len() >= environment::limit(MAX_UNSENT_VOTES / 2) {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(Arc::clone(token));
        }
    }

    /// Called before a command is written. From then on, a vote may set its token on a key.
    pub(super) fn sending(&mut self, in_flight: &mut InFlight) {
        // Checked first, because this runs for each command and is almost always empty.
        if self.newer.is_empty() && self.older.is_empty() {
            return;
        }
        if let Purpose::FirstVote { token, .. } | Purpose::Heal(token) = &in_flight.command.purpose
        {
            self.remove(token);
        }
        in_flight.unneeded |= self.has_vote_of(&in_flight.command);
    }

    /// Called when a command fails without being written.
    pub(crate) fn not_sent(&mut self, in_flight: &mut InFlight) {
        self.add(&in_flight.command);
        in_flight.unneeded |= self.has_vote_of(&in_flight.command);
    }

    /// Whether this is the delete of such a vote, so that it created no key. The delete follows the vote, which is not
    /// remembered any more.
    pub(crate) fn has_vote_of(&mut self, command: &Command) -> bool {
        let Purpose::Delete { token, earlier, .. } = &command.purpose else { return false };
        // A merged delete was pending, so its votes were sent.
        earlier.is_empty() && self.remove(token)
    }

    /// Called for a command that waits for a connection.
    ///
    /// Without its caller, a vote is never sent. If its delete is refused meanwhile, it must not become pending,
    /// because it could displace one that is needed. If its delete also waits, a shutdown need not wait for it.
    pub(crate) fn waiting(&mut self, in_flight: &mut InFlight) {
        self.add(&in_flight.command);
        if let Purpose::Delete { token, earlier, .. } = &in_flight.command.purpose
            && earlier.is_empty()
            && (self.newer.contains(token) || self.older.contains(token))
        {
            in_flight.stop_counting();
        }
    }

    /// Forgets a vote. Returns whether it was remembered.
    fn remove(&mut self, token: &str) -> bool {
        // From both.
        self.newer.remove(token) | self.older.remove(token)
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
    pub(crate) fn of(context: &mut Option<Self>) -> &mut Self {
        context.as_mut().expect("a connection has the backlog")
    }

    /// Lets a command wait for a connection.
    pub(crate) fn wait(&mut self, mut in_flight: InFlight, waiting: &mut Vec<InFlight>) {
        self.pending.unsent_votes.waiting(&mut in_flight);
        waiting.push(in_flight);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::merged_deletes::tests::{release, tokens};
    use super::*;
    use crate::node::Claim;
    use crate::node::redis::commands::command::Expects;
    use crate::node::redis::commands::scripts::release_script;

    const TTL: Duration = Duration::from_secs(10);

    fn command(bytes: &str, purpose: Purpose) -> Command {
        let (bytes, expects) = (bytes.to_owned().into(), Expects::Anything);
        Command { timeout: TTL, ..Command::new(bytes, expects, purpose) }
    }

    fn delete(token: &str) -> Command {
        command(token, Purpose::delete(token.into(), TTL))
    }

    fn vote(token: &str, sent: bool) -> Command {
        command("vote", Purpose::FirstVote { token: token.into(), sent })
    }

    #[test]
    fn records_a_sent_claim_once() {
        let (mut pending, now) =
            (PendingDeletes::new(Arc::default(), None), Instant::from_start(TTL));
        for token in ["a", "b", "a"] {
            assert_eq!(pending.add(delete(token), now), Some(now + TTL));
        }
        let mut bytes: Vec<_> = pending.take().into_iter().map(|command| command.bytes).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [b"a", b"b"]);
        assert!(pending.is_empty());
    }

    #[test]
    fn delete_is_unneeded_only_if_its_vote_was_never_sent() {
        let mut unsent = UnsentVotes::default();
        unsent.add(&vote("unsent", false));
        unsent.add(&vote("second command", true));
        unsent.add(&vote("sent later", false));
        unsent.sending(&mut InFlight::without_caller(command(
            "heal",
            Purpose::Heal("sent later".into()),
        )));
        let mut unneeded = |token| {
            let mut delete = InFlight::without_caller(delete(token));
            unsent.sending(&mut delete);
            delete.unneeded
        };
        assert_eq!(
            ["unsent", "second command", "sent later"].map(&mut unneeded),
            [true, false, false]
        );
        assert!(!unneeded("unsent"), "the delete of its next vote is needed");
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
        let all = pending.take();
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
        let all = pending.take();
        assert_eq!(all.len(), MAX_PENDING_DELETES / 8 * 7);
        let until = all.iter().filter(|one| one.bytes != b"another").map(|one| one.purpose.until());
        let dropped = MAX_PENDING_DELETES / 8 + 1;
        assert!(until.min().unwrap() >= Some(at(MAX_PENDING_DELETES - dropped) + TTL));
        // A delete that fails again keeps its time limit.
        pending.add(delete("another"), now);
        let again = pending.take().remove(0);
        pending.add(again, now + TTL / 2);
        pending.forget_expired(now + TTL / 2);
        assert!(!pending.is_empty());
        pending.forget_expired(now + TTL);
        assert!(pending.is_empty());
    }
}
