//! Sends extends and deletes to every node at once, counts the replies of every kind of command, and stops as soon as
//! the outcome is certain. A vote round ([`acquire`](crate::acquire)) decides itself which nodes it asks first.
//!
//! A quorum is more than half of the nodes. Any two quorums share a node, which is what Redlock's mutual exclusion
//! relies on (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>). For a single node, the
//! quorum is one.
//!
//! No task is spawned: the waiting caller polls the replies, and a wait that is dropped keeps those that arrived.

mod tally;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{self, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::coop::unconstrained;

use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::error::{ErrorKind, NodeReport, NodeState, seconds};
use crate::node::{Claim, Extension, Fault, Node, Proof, ReleaseMode, Remedy, Reply, VoteParams};
use crate::text::{spelled, spelled_time};

pub(crate) use tally::Validity;
pub use tally::{Tally, drift};

/// The minimum extra time, after the connect timeout, to wait for the error of the attempt.
const CONNECT_MARGIN: Duration = Duration::from_millis(500);

/// The maximum time to wait for unread replies if this task ran late.
pub(crate) const AFTER_BLOCK: Duration = Duration::from_millis(100);

/// The nodes of one client. A command is on its way to every node when the method returns.
pub(crate) struct Nodes {
    /// In the order of the configured list. Replies have the same order.
    pub(crate) list: Vec<Arc<dyn Node>>,
    /// The source of every deadline.
    pub(crate) clock: Arc<dyn Clock>,
    /// The time limit of one attempt to connect.
    pub(crate) connect_timeout: Duration,
    /// Counts, by its references, the vote rounds that have not ended. Their votes are not deleted yet.
    pub(crate) rounds: Arc<()>,
}

impl Nodes {
    pub(crate) fn new(
        list: Vec<Arc<dyn Node>>,
        clock: Arc<dyn Clock>,
        connect_timeout: Duration,
    ) -> Self {
        Self { list, clock, connect_timeout, rounds: Arc::default() }
    }

    /// Whether a vote round has not ended. If not, a later command to a node follows the deletes of all rounds.
    pub(crate) fn has_rounds(&self) -> bool {
        let has = Arc::strong_count(&self.rounds) > 1;
        // What the last round did before its end is visible to the caller.
        fence(Ordering::Acquire);
        has
    }

    pub(crate) fn extend(&self, claim: &Claim, params: VoteParams) -> Collect<Extension> {
        let replies = self.list.iter().map(|node| node.extend(claim, params));
        Collect::new(replies, |answer| match answer {
            // "Held" and "missing" are distinguished, because they are different loss reasons with different remedies.
            Extension::Extended => NodeState::Granted,
            Extension::Missing => NodeState::Missing,
            Extension::Taken => NodeState::Held,
        })
    }

    /// Sends a release to every node immediately.
    pub(crate) fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        timeout: Duration,
    ) -> Collect<bool> {
        let replies = self.list.iter().map(|node| node.release(claim, lifetime, how, timeout));
        // For a release, a key with another owner is as good as a missing one.
        Collect::new(replies, |ours| if *ours { NodeState::Granted } else { NodeState::Missing })
    }

    /// Returns the first permanent error, if enough nodes have one to prevent a quorum.
    ///
    /// A minority of such nodes counts as unavailable.
    pub(crate) fn permanent<T>(&self, votes: &Collect<T>) -> Option<(ErrorKind, String)> {
        let answers = self.list.iter().zip(&votes.answers);
        let mut faults = answers.filter_map(|(node, answer)| match answer {
            Some(Err(fault)) => Some((fault.permanent()?, node, fault)),
            _ => None,
        });
        let spare = self.list.len() - votes.tally.quorum();
        // More nodes fail than the quorum can spare. The first of them is named.
        let (kind, node, fault) = faults.clone().nth(spare).and(faults.next())?;
        Some((kind, format!("{}: {fault}", node.url())))
    }

    /// Whether another attempt can succeed, if enough nodes failed to prevent a quorum.
    pub(crate) fn remedy<T>(&self, votes: &Collect<T>) -> Remedy {
        let faults = votes.answers.iter().flatten().filter_map(|answer| answer.as_ref().err());
        let mut remedies: Vec<_> = faults.map(Fault::remedy).collect();
        remedies.sort_unstable();
        // The quorum can spare the nodes with the most permanent errors.
        let decisive = remedies.len().checked_sub(self.list.len() - votes.tally.quorum() + 1);
        decisive.map_or(Remedy::Retry, |at| remedies[at])
    }

    /// Waits until a quorum of the nodes has a connection for the keys, within `connect_timeout`. Otherwise returns the
    /// result of each node.
    ///
    /// Commands with a single attempt use this, because the deadline of that attempt includes the connections.
    pub(crate) async fn connect(&self, keys: &[String]) -> Result<(), Collect<()>> {
        let key = keys.first().map_or("", String::as_str);
        if self.list.iter().all(|node| node.is_connected(key)) {
            return Ok(());
        }
        let replies = self.list.iter().map(|node| node.connected(key));
        let mut connected = Collect::new(replies, |()| NodeState::Granted);
        // An attempt to connect has its own timeout, with a more precise error. The margin covers attempts that began
        // later than this call, and a busy machine.
        let margin = (self.connect_timeout / 10).max(CONNECT_MARGIN);
        let until = self.clock.now() + self.connect_timeout + margin;
        // Boxed, because it is rarely needed and would enlarge the futures of all callers.
        Box::pin(connected.until(Until::Decided, &*self.clock, until)).await;
        self.record_outages(&connected, None, None);
        if connected.tally.met() { Ok(()) } else { Err(connected) }
    }

    /// Records for the log which nodes failed and which voted. A missing reply counts as failed if the nodes had their
    /// whole `timeout`. Pass `None` if they had less. `proof` is what a successful vote shows, or `None` if these
    /// replies are not votes.
    pub(crate) fn record_outages<T>(
        &self,
        votes: &Collect<T>,
        timeout: Option<Duration>,
        proof: Option<Proof>,
    ) {
        for (node, answer) in self.list.iter().zip(&votes.answers) {
            let Some(outage) = node.outage() else { continue };
            let now = || self.clock.now();
            match answer {
                Some(Ok(value)) => {
                    let succeeded = (votes.read)(value) == NodeState::Granted;
                    if let Some(proof) = proof {
                        let proof = if succeeded { proof } else { Proof::Reply };
                        outage.voted(node.url(), proof, now);
                    }
                }
                // A wrong option or login is not an outage. The caller gets the error.
                Some(Err(fault)) if fault.remedy() >= Remedy::Confirmed => {}
                Some(Err(fault)) => {
                    // It may still succeed with another kind of vote.
                    let needed = proof.filter(|_| fault.is_declined()).unwrap_or(Proof::Reply);
                    outage.failed(node.url(), now(), fault, needed);
                }
                None => {
                    if let Some(timeout) = timeout.filter(|_| votes.silence_counts) {
                        let fault = self.silence(&**node, timeout);
                        outage.failed(node.url(), now(), &fault, Proof::Reply);
                    }
                }
            }
        }
    }

    /// Returns the result of each node for an error. `timeout` is how long the replies were awaited.
    pub(crate) fn report<T>(&self, votes: &Collect<T>, timeout: Duration) -> Vec<NodeReport> {
        let report = |(node, answer): (&Arc<dyn Node>, &Option<Result<T, Fault>>)| {
            let (state, error, cause) = match answer {
                Some(Ok(value)) => ((votes.read)(value), None, None),
                Some(Err(fault)) => (NodeState::Fault, Some(fault.to_string()), fault.cause()),
                None if votes.silence_counts => {
                    let state = if votes.is_cut { NodeState::Pending } else { NodeState::Fault };
                    (state, Some(self.silence(&**node, timeout)), None)
                }
                // The decision did not need its reply.
                None => (NodeState::Pending, None, None),
            };
            NodeReport { url: node.url().to_owned(), state, error, cause }
        };
        self.list.iter().zip(&votes.answers).map(report).collect()
    }

    /// The error text of a node that did not reply in time.
    fn silence(&self, node: &dyn Node, timeout: Duration) -> String {
        let mut text = format!("no reply within {}", seconds(timeout));
        if let Some(step) = node.connecting() {
            let (option, most) = (spelled("connect_timeout"), spelled_time(self.connect_timeout));
            let waits = if step.is_empty() { "" } else { ", waiting for " };
            // Writing to a String cannot fail.
            let _ = write!(text, ", still connecting ({option} is {most}){waits}{step}");
        }
        text
    }
}

/// How long to collect replies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The node that was added last has replied.
    Last,
    /// No further reply can change the outcome.
    Decided,
    /// The same, or a quorum of nodes has replied but is divided.
    DecidedOrSplit,
    /// A quorum granted, too many nodes refused, or every node replied. Failed nodes that make a quorum impossible are
    /// not enough: a single failed node must not hide that all other nodes refused.
    Judged,
    /// It is certain whether a quorum of nodes replies. Failed nodes that have decided the vote are not enough.
    /// Refusals that make a quorum impossible are.
    Answered,
    Complete,
}

/// One value per node. Most clients have a single node, whose value needs no heap allocation.
type PerNode<T> = SmallVec<[T; 1]>;

/// The replies to one command that was sent to every node, and their count.
pub(crate) struct Collect<T> {
    /// In the order in which the command was sent. Dropping a reply does not cancel its command.
    replies: PerNode<Reply<T>>,
    /// The state of a node with this reply. Every state other than `Granted` counts as refused.
    read: fn(&T) -> NodeState,
    /// The count of the replies so far.
    pub(crate) tally: Tally,
    /// By the node's position in the list. `None` if the node has not replied.
    pub(crate) answers: PerNode<Option<Result<T, Fault>>>,
    /// Whether the deadline passed before a decision, so that nodes without a reply count as failed. Otherwise a report
    /// shows them as `pending`, because the decision did not need their replies.
    silence_counts: bool,
    /// Whether the nodes get less time than a reply may take: by the caller's `wait`, or after a split vote. A node
    /// without a reply then counts as failed in the decision, but is reported as `pending`, because it may be healthy.
    pub(crate) is_cut: bool,
}

impl<T> Collect<T> {
    /// Creates a collection of replies to a command that was sent to every node. `read` classifies a reply.
    pub(crate) fn new(
        replies: impl ExactSizeIterator<Item = Reply<T>>,
        read: fn(&T) -> NodeState,
    ) -> Self {
        let mut collect = Self::for_nodes(replies.len(), read);
        for reply in replies {
            collect.add(reply);
        }
        collect
    }

    /// Creates a collection for this number of nodes, none of which got the command yet.
    pub(crate) fn for_nodes(nodes: usize, read: fn(&T) -> NodeState) -> Self {
        let (replies, answers) = (PerNode::with_capacity(nodes), PerNode::with_capacity(nodes));
        let (silence_counts, is_cut) = (false, false);
        Self { replies, read, tally: Tally::new(nodes), answers, silence_counts, is_cut }
    }

    pub(crate) fn add(&mut self, reply: Reply<T>) {
        self.replies.push(reply);
        self.answers.push(None);
    }

    /// Stops polling for replies. The commands are not cancelled.
    ///
    /// Earlier replies are kept. A later wait ends only at its deadline.
    pub(crate) fn stop_listening(&mut self) {
        self.replies.clear();
    }

    /// Returns the outstanding replies, so that the caller can continue to poll them.
    pub(crate) fn unanswered(self) -> Vec<Reply<T>> {
        let asked = self.replies.into_iter().zip(self.answers);
        asked.filter_map(|(reply, answer)| answer.is_none().then_some(reply)).collect()
    }

    /// Whether a node returned this result.
    pub(crate) fn has(&self, answer: T) -> bool
    where
        T: PartialEq,
    {
        self.answers.contains(&Some(Ok(answer)))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Counts every node without a reply as failed.
    pub(crate) fn count_silence(&mut self) {
        self.silence_counts = true;
        self.answers.iter().filter(|answer| answer.is_none()).for_each(|_| self.tally.fault());
    }

    fn has_enough(&self, until: Until) -> bool {
        let tally = &self.tally;
        match until {
            Until::Last => self.answers.last().is_some_and(Option::is_some),
            Until::Decided => tally.decided(),
            Until::DecidedOrSplit => tally.decided() || tally.answered(),
            Until::Judged => tally.met() || tally.denied() || self.is_complete(),
            Until::Answered => tally.answered() || tally.denied() || tally.unavailable(),
            Until::Complete => self.is_complete(),
        }
    }

    /// Collects replies until there are enough or the deadline passes. Then, nodes without a reply count as failed, if
    /// the replies decide about the outcome. Replies are polled before the clock is read: a reply that arrived in time
    /// counts, even if this task runs late. If it was blocked beyond the deadline, a reply may have arrived that the
    /// driver could not read, or a node may get its next question only now. They then have as much time as the task was
    /// late, at most [`AFTER_BLOCK`].
    ///
    /// This is not an async function, which would store its arguments twice and enlarge the future of every acquire.
    pub(crate) fn until<'a>(
        &'a mut self,
        until: Until,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let (mut timer, mut waited, mut extended) = (None, false, false);
        // Opts out of tokio's coop budget. A task that awaits thousands of these (`join_all`, the monitor) would exceed
        // it. The others would then be polled in vain again and again, at quadratic cost. Each future waits for a node
        // anyway.
        unconstrained(poll_fn(move |cx| {
            // A late reply of a node that was counted as failed would count twice.
            if !self.silence_counts {
                self.take_ready(cx);
            }
            if self.has_enough(until) {
                return Poll::Ready(());
            }
            // Created only if a reply is outstanding. Most commands of an in-memory node need no timer.
            let timer = timer.get_or_insert_with(|| clock.sleep_until(deadline));
            let mut over = timer.as_mut().poll(cx);
            // Once, and only for the wait that was interrupted. Those after it begin beyond the deadline.
            if over.is_pending() {
                waited = true;
            } else if waited && !extended {
                let now = clock.now();
                let late = now.since(deadline).min(AFTER_BLOCK);
                extended = !late.is_zero();
                if extended {
                    *timer = clock.sleep_until(now + late);
                    over = timer.as_mut().poll(cx);
                }
            }
            if over.is_ready() && !matches!(until, Until::Last | Until::Complete) {
                self.count_silence();
            }
            drivers::flush();
            over
        }))
    }

    /// Polls the outstanding replies. A completed reply must not be polled again.
    fn take_ready(&mut self, cx: &mut task::Context<'_>) {
        for (reply, slot) in self.replies.iter_mut().zip(&mut self.answers) {
            if slot.is_none()
                && let Poll::Ready(answer) = reply.as_mut().poll(cx)
            {
                match &answer {
                    Ok(value) if (self.read)(value) == NodeState::Granted => self.tally.grant(),
                    Ok(_) => self.tally.refuse(),
                    Err(_) => self.tally.fault(),
                }
                *slot = Some(answer);
            }
        }
    }
}
