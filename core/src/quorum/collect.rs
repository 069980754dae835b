//! Collects and counts the replies of all nodes to one command, until the outcome is certain.
//!
//! The `read` function of each command classifies a reply. Nodes are identified by their position in the list. No task
//! is spawned: the waiting caller polls the replies, and a wait that is dropped keeps those that arrived.

use std::future::poll_fn;
use std::task::{self, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::coop::unconstrained;

use super::tally::Tally;
use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::error::{Cause, NodeState, seconds};
use crate::node::{Fault, Reply};

/// How a reply counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// As granted.
    Granted,
    /// As refused. A report shows this state.
    Refused(NodeState),
}

/// One value per node. Most clients have a single node, whose value needs no heap allocation.
type PerNode<T> = SmallVec<[T; 1]>;

/// The replies to one command that was sent to every node, and their count.
pub(crate) struct Collect<T> {
    /// In the order in which the command was sent. Dropping a reply does not cancel its command.
    replies: PerNode<Reply<T>>,
    /// Classifies a reply.
    read: fn(&T) -> Counts,
    /// The count of the replies so far.
    pub(crate) tally: Tally,
    /// By the node's position in the list. `None` if the node has not replied.
    pub(crate) answers: PerNode<Option<Result<T, Fault>>>,
    /// Whether the deadline passed before a decision, so that nodes without a reply count as failed. Otherwise a report
    /// shows them as `pending`, because the decision did not need their replies.
    silence_counts: bool,
}

impl<T> Collect<T> {
    /// Creates a collection of replies to a command that was sent to every node. `read` classifies a reply.
    pub(crate) fn new(
        replies: impl ExactSizeIterator<Item = Reply<T>>,
        read: fn(&T) -> Counts,
    ) -> Self {
        let mut collect = Self::over(replies.len(), read);
        for reply in replies {
            collect.add(reply);
        }
        collect
    }

    /// Creates a collection for this number of nodes, none of which got the command yet.
    pub(crate) fn over(nodes: usize, read: fn(&T) -> Counts) -> Self {
        let (replies, answers) = (PerNode::with_capacity(nodes), PerNode::with_capacity(nodes));
        Self { replies, read, tally: Tally::new(nodes), answers, silence_counts: false }
    }

    /// Adds the reply of the next node.
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

    /// Waits for the reply of the node that was added last.
    pub(crate) fn until_last<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let last = |this: &Self| this.answers.last().is_some_and(Option::is_some);
        self.until(clock, deadline, last, |_| {})
    }

    /// Collects replies until the outcome is certain or the deadline passes. At the deadline, nodes without a reply
    /// count as failed.
    pub(crate) fn until_decided<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        self.until(clock, deadline, |this| this.tally.decided(), Self::silence_counts)
    }

    /// Whether nodes without a reply count as failed.
    pub(super) fn is_silence_counted(&self) -> bool {
        self.silence_counts
    }

    /// Counts every node without a reply as failed.
    pub(crate) fn silence_counts(&mut self) {
        self.silence_counts = true;
        self.answers.iter().filter(|answer| answer.is_none()).for_each(|_| self.tally.fault());
    }

    /// Collects replies until a quorum granted, until too many nodes refused, or until every node replied or timed out.
    ///
    /// Unlike [`Collect::until_decided`], this continues when failed nodes make a quorum impossible. A single failed
    /// node must not hide that all other nodes refused.
    pub(crate) fn until_judged<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        let clear = |this: &Self| this.tally.met() || this.tally.denied() || this.is_complete();
        self.until(clock, deadline, clear, Self::silence_counts)
    }

    /// Collects replies until it is certain whether a quorum of nodes replies.
    ///
    /// Unlike [`Collect::until_decided`], this continues when failed nodes have decided the vote. Refusals that make a
    /// quorum impossible are enough.
    pub(crate) async fn until_answered(&mut self, clock: &dyn Clock, deadline: Instant) {
        let clear = |this: &Self| {
            let tally = &this.tally;
            tally.answered() || tally.denied() || tally.unavailable()
        };
        // Also after a timeout: silent nodes were counted as failed, so a late reply would count twice.
        if !clear(self) {
            self.until(clock, deadline, clear, Self::silence_counts).await;
        }
    }

    /// Whether every node has replied.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Collects the replies that a decision did not need, until the deadline.
    ///
    /// Nodes without a reply do not count as failed, unless the caller calls [`Collect::silence_counts`].
    pub(crate) fn until_complete<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
    ) -> impl Future<Output = ()> + 'a {
        self.until(clock, deadline, Self::is_complete, |_| {})
    }

    /// Returns the state and the error of each node for a report. A node without a reply counts as failed after
    /// `timeout`, if [`Collect::silence_counts`] was called.
    pub(super) fn words(
        &self,
        timeout: Duration,
    ) -> impl Iterator<Item = (NodeState, Option<String>, Option<Cause>)> {
        self.answers.iter().map(move |answer| match answer {
            Some(Ok(value)) => match (self.read)(value) {
                Counts::Granted => (NodeState::Granted, None, None),
                Counts::Refused(state) => (state, None, None),
            },
            Some(Err(fault)) => (NodeState::Fault, Some(fault.to_string()), fault.cause()),
            None if self.silence_counts => {
                (NodeState::Fault, Some(format!("no reply within {}", seconds(timeout))), None)
            }
            None => (NodeState::Pending, None, None),
        })
    }

    /// Waits for `enough` or for the deadline, and calls `late` if the deadline passes first. Replies are polled before
    /// the clock is read: a reply that arrived in time counts, even if this task runs late.
    ///
    /// This is not an async function, and neither are its callers. An async function stores its arguments twice, which
    /// would enlarge the future of every acquire.
    fn until<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        deadline: Instant,
        enough: impl Fn(&Self) -> bool + 'a,
        late: impl Fn(&mut Self) + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let mut timer = None;
        // Opts out of tokio's coop budget. A task that awaits thousands of these (`join_all`, the monitor) would exceed
        // it. The others would then be polled in vain again and again, at quadratic cost. Each future waits for a node
        // anyway.
        unconstrained(poll_fn(move |cx| {
            self.take_ready(cx);
            if enough(self) {
                return Poll::Ready(());
            }
            // Created only if a reply is outstanding. Most commands of an in-memory node need no timer.
            let timer = timer.get_or_insert_with(|| clock.sleep_until(deadline));
            let over = timer.as_mut().poll(cx).map(|()| late(self));
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
                    Ok(value) if (self.read)(value) == Counts::Granted => self.tally.grant(),
                    Ok(_) => self.tally.refuse(),
                    Err(_) => self.tally.fault(),
                }
                *slot = Some(answer);
            }
        }
    }
}
