//! Collects and counts the replies of all nodes to one command, until the outcome is certain.
//!
//! The `read` function of each command classifies a reply. Nodes are identified by their position in the list. No task
//! is spawned: the waiting caller polls the replies, and a wait that is dropped keeps those that arrived.

use std::future::poll_fn;
use std::task::{self, Poll};

use smallvec::SmallVec;
use tokio::task::coop::unconstrained;

use super::tally::Tally;
use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::error::NodeState;
use crate::node::{Fault, Reply};

/// How long to collect replies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The node that was added last has replied.
    Last,
    /// No further reply can change the outcome.
    Decided,
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
    pub(super) read: fn(&T) -> NodeState,
    /// The count of the replies so far.
    pub(crate) tally: Tally,
    /// By the node's position in the list. `None` if the node has not replied.
    pub(crate) answers: PerNode<Option<Result<T, Fault>>>,
    /// Whether the deadline passed before a decision, so that nodes without a reply count as failed. Otherwise a report
    /// shows them as `pending`, because the decision did not need their replies.
    pub(super) silence_counts: bool,
}

impl<T> Collect<T> {
    /// Creates a collection of replies to a command that was sent to every node. `read` classifies a reply.
    pub(crate) fn new(
        replies: impl ExactSizeIterator<Item = Reply<T>>,
        read: fn(&T) -> NodeState,
    ) -> Self {
        let mut collect = Self::over(replies.len(), read);
        for reply in replies {
            collect.add(reply);
        }
        collect
    }

    /// Creates a collection for this number of nodes, none of which got the command yet.
    pub(crate) fn over(nodes: usize, read: fn(&T) -> NodeState) -> Self {
        let (replies, answers) = (PerNode::with_capacity(nodes), PerNode::with_capacity(nodes));
        Self { replies, read, tally: Tally::new(nodes), answers, silence_counts: false }
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
            Until::Judged => tally.met() || tally.denied() || self.is_complete(),
            Until::Answered => tally.answered() || tally.denied() || tally.unavailable(),
            Until::Complete => self.is_complete(),
        }
    }

    /// Collects replies until there are enough or the deadline passes. Then, nodes without a reply count as failed, if
    /// the replies decide about the outcome. Replies are polled before the clock is read: a reply that arrived in time
    /// counts, even if this task runs late.
    ///
    /// This is not an async function, which would store its arguments twice and enlarge the future of every acquire.
    pub(crate) fn until<'a>(
        &'a mut self,
        until: Until,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let mut timer = None;
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
            let over = timer.as_mut().poll(cx);
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
