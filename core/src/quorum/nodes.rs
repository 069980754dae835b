//! The nodes of one client, asked all at once.
//!
//! It knows how each kind of answer counts and what to call it in a report; when to ask, and what an outcome
//! means, is the callers' to know. Each question is on its way to every node when its method returns.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::collect::{Collect, Counts};
use crate::clock::Clock;
use crate::error::{ErrorKind, NodeReport, NodeState, seconds};
use crate::node::{Claim, Extension, Fault, Node, Remedy, Reply, VoteParams};
use crate::spelling::spelled;

/// The nodes of one client.
pub(crate) struct Nodes {
    /// In the order of their list, which is also that of the answers.
    pub(crate) list: Vec<Arc<dyn Node>>,
    /// Every deadline comes from here.
    pub(crate) clock: Arc<dyn Clock>,
    /// How long an attempt to connect may take.
    pub(crate) connect_timeout: Duration,
}

impl Nodes {
    /// Sends an extend to every node, now.
    pub(crate) fn extend(&self, claim: &Claim, params: VoteParams) -> Collect<Extension> {
        let replies = self.list.iter().map(|node| node.extend(claim, params));
        Collect::new(replies, |answer| match answer {
            // "Held" and "missing" are told apart: a loss has another reason, and another remedy.
            Extension::Extended => Counts::Granted,
            Extension::Missing => Counts::Refused(NodeState::Missing),
            Extension::Taken => Counts::Refused(NodeState::Held),
        })
    }

    /// Sends a release to every node, now. `owed` is by when the keys have expired anyway; `late`: they probably have.
    pub(crate) fn release(&self, claim: &Claim, owed: Duration, late: bool) -> Collect<bool> {
        let release = |node: &Arc<dyn Node>| {
            if late { node.release_late(claim, owed) } else { node.release(claim, owed) }
        };
        given_back(self.list.iter().map(release))
    }

    /// Has every node keep the keys for no longer than `stay`, now: a release that leaves them there for so long.
    pub(crate) fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Collect<bool> {
        given_back(self.list.iter().map(|node| node.shorten(claim, owed, stay)))
    }

    /// The first permanent fault, if so many nodes have one that no quorum is left.
    ///
    /// A minority of such nodes counts as if it were down.
    pub(crate) fn permanent<T>(&self, votes: &Collect<T>) -> Option<(ErrorKind, String)> {
        let answers = self.list.iter().zip(&votes.answers);
        let mut faults = answers.filter_map(|(node, answer)| match answer {
            Some(Err(fault)) => Some((fault.permanent()?, node, fault)),
            _ => None,
        });
        let spare = self.list.len() - votes.tally.quorum();
        // More than can be spared say so; the first of them is named.
        let (kind, node, fault) = faults.clone().nth(spare).and(faults.next())?;
        Some((kind, format!("{}: {fault}", node.url())))
    }

    /// Whether another attempt can succeed, where so many nodes fail that no quorum is left.
    pub(crate) fn remedy<T>(&self, votes: &Collect<T>) -> Remedy {
        let faults = votes.answers.iter().flatten().filter_map(|answer| answer.as_ref().err());
        let mut remedies: Vec<_> = faults.map(Fault::remedy).collect();
        remedies.sort_unstable();
        // The nodes that can be spared are those with the most permanent faults.
        let decisive = remedies.len().checked_sub(self.list.len() - votes.tally.quorum() + 1);
        decisive.map_or(Remedy::Retry, |at| remedies[at])
    }

    /// Waits until a quorum of the nodes has a connection for the keys, within `connect_timeout`. `Err`: what each node came to.
    ///
    /// For calls that make one attempt: the deadline of that attempt begins with the connections.
    pub(crate) async fn connect(&self, keys: &[String]) -> Result<(), Collect<()>> {
        let key = keys.first().map_or("", String::as_str);
        if self.list.iter().all(|node| node.is_connected(key)) {
            return Ok(());
        }
        let replies = self.list.iter().map(|node| node.connected(key));
        let mut connected = Collect::new(replies, |()| Counts::Granted);
        // Attempts end by themselves, and say more: this is for those that began later than this.
        let until = self.clock.now() + self.connect_timeout.mul_f64(1.1);
        // In a box: rare, and the futures of all who may come here are moved about.
        Box::pin(connected.until_decided(&*self.clock, until)).await;
        self.note(&connected, None);
        if connected.tally.met() { Ok(()) } else { Err(connected) }
    }

    /// Records which nodes failed and which replied, for the log. Silence is a failure where the nodes had their whole
    /// `timeout`; `None`: they had less.
    pub(crate) fn note<T>(&self, votes: &Collect<T>, timeout: Option<Duration>) {
        for (node, answer) in self.list.iter().zip(&votes.answers) {
            let Some(outage) = node.outage() else { continue };
            let now = || self.clock.now();
            match answer {
                Some(Ok(_)) => outage.replied(node.url(), now),
                // An option is wrong: the caller gets an error that says so.
                Some(Err(fault)) if fault.permanent().is_some() => {}
                Some(Err(fault)) => outage.failed(node.url(), now(), fault),
                None => {
                    if let Some(timeout) = timeout.filter(|_| votes.is_silence_counted()) {
                        let fault = format!("no answer within {}", seconds(timeout));
                        outage.failed(node.url(), now(), &fault);
                    }
                }
            }
        }
    }

    /// What each node said, for an error. The silent were listened to for `timeout`.
    pub(crate) fn report<T>(&self, votes: &Collect<T>, timeout: Duration) -> Vec<NodeReport> {
        let report =
            |((node, answer), (state, error, cause)): ((&Arc<dyn Node>, &Option<_>), _)| {
                let mut error: Option<String> = error;
                if let Some(error) = error.as_mut()
                    && answer.is_none()
                    && !node.is_connected("")
                {
                    let (option, most) =
                        (spelled("connect_timeout"), seconds(self.connect_timeout));
                    let _ = write!(error, ": still connecting ({option} is {most})");
                }
                NodeReport { url: node.url().to_owned(), state, error, cause }
            };
        let nodes = self.list.iter().zip(&votes.answers);
        nodes.zip(votes.words(timeout)).map(report).collect()
    }
}

/// The answers of nodes that were asked to give keys back.
fn given_back(replies: impl ExactSizeIterator<Item = Reply<bool>>) -> Collect<bool> {
    Collect::new(replies, |ours| match ours {
        // Not ours any more: to whoever releases, a foreign key is as gone as a missing one.
        true => Counts::Granted,
        false => Counts::Refused(NodeState::Missing),
    })
}
