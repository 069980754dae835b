//! Sends a command to every node at once, counts the replies, and stops as soon as the outcome is certain.
//!
//! A quorum is more than half of the nodes. Any two quorums share a node, which is what Redlock's mutual exclusion
//! relies on (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>). For a single node, the
//! quorum is one.

mod collect;
mod tally;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{ErrorKind, NodeReport, NodeState, seconds};
use crate::node::{Claim, Extension, Fault, Node, ReleaseMode, Remedy, VoteParams};
use crate::text::{spelled, spelled_time};

pub(crate) use collect::{Collect, Until};
pub(crate) use tally::Validity;
pub use tally::{Tally, drift};

/// The minimum extra time, after the connect timeout, to wait for the error of the attempt.
const CONNECT_MARGIN: Duration = Duration::from_millis(500);

/// The nodes of one client. A command is on its way to every node when the method returns.
pub(crate) struct Nodes {
    /// In the order of the configured list. Replies have the same order.
    pub(crate) list: Vec<Arc<dyn Node>>,
    /// The source of every deadline.
    pub(crate) clock: Arc<dyn Clock>,
    /// The time limit of one attempt to connect.
    pub(crate) connect_timeout: Duration,
}

impl Nodes {
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
    ) -> Collect<bool> {
        let replies = self.list.iter().map(|node| node.release(claim, lifetime, how));
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
        self.note(&connected, None);
        if connected.tally.met() { Ok(()) } else { Err(connected) }
    }

    /// Records for the log which nodes failed and which replied. A missing reply counts as failed if the nodes had
    /// their whole `timeout`. Pass `None` if they had less.
    pub(crate) fn note<T>(&self, votes: &Collect<T>, timeout: Option<Duration>) {
        for (node, answer) in self.list.iter().zip(&votes.answers) {
            let Some(outage) = node.outage() else { continue };
            let now = || self.clock.now();
            match answer {
                Some(Ok(_)) => outage.replied(node.url(), now),
                // A wrong option or login is not an outage. The caller gets the error.
                Some(Err(fault)) if fault.remedy() >= Remedy::Confirmed => {}
                Some(Err(fault)) => outage.failed(node.url(), now(), fault),
                None => {
                    if let Some(timeout) = timeout.filter(|_| votes.silence_counts) {
                        let fault = format!("no reply within {}", seconds(timeout));
                        outage.failed(node.url(), now(), &fault);
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
                    (NodeState::Fault, Some(self.silence(&**node, timeout)), None)
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
        if !node.is_connected("") {
            let (option, most) = (spelled("connect_timeout"), spelled_time(self.connect_timeout));
            // Writing to a String cannot fail.
            let _ = write!(text, ", still connecting ({option} is {most})");
        }
        text
    }
}
