//! Who holds a key, by each node's word.
//!
//! A reading and no vote: it changes nothing on a node and has no say in who may lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{NodeReport, NodeState};
use crate::node::{Fault, Holder, KEPT, Node};
use crate::quorum::{Collect, Counts, Nodes};
use crate::text::escaped;

/// A snapshot of a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let lease = client.lock("job").acquire().await?;
/// let found = client.lock("job").inspect().await?;
/// assert!(found.held && found.remaining.is_some());
/// assert_eq!((found.nodes[0].state, found.nodes[0].key.as_str()), (redlock::NodeState::Held, "lock:job"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// One owner has a key on a quorum of nodes.
    pub held: bool,
    /// What is left of it there; `None` when free, or without a known end.
    ///
    /// After so long, without a renewal, a quorum is free; of several keys the longest. Where it is not held, how long it
    /// stays by `min_hold`: nobody has it until then.
    pub remaining: Option<Duration>,
    /// Each node's word on each key.
    ///
    /// One for each key and node, by key, then in the order of the client's nodes.
    pub nodes: Vec<NodeInspection>,
}

/// One node's word on one key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeInspection {
    /// The node's URL, without its password.
    pub url: String,
    /// The Redis key.
    pub key: String,
    /// `Free`, `Held`, `Kept` or `Fault`.
    pub state: NodeState,
    /// What is left; `None` when free, at a fault, or without a known end.
    pub remaining: Option<Duration>,
    /// The first 8 digits of the owner's token; of a key that only stays, of who released it.
    /// Enough to tell two owners apart, and too little to release by.
    pub token: Option<String>,
    /// The fault's own text, or why the node takes no first vote yet (`restart_guard`).
    pub error: Option<String>,
}

/// `Err`: so many nodes gave no answer on a key that nobody knows whether it is held; what each had to say.
pub(crate) async fn inspection(
    nodes: &Nodes,
    keys: &[String],
    timeout: Duration,
) -> Result<Inspection, Vec<NodeReport>> {
    if let Err(votes) = nodes.connect(keys).await {
        return Err(nodes.report(&votes, nodes.connect_timeout));
    }
    let clock = &*nodes.clock;
    let deadline = clock.now() + timeout;
    let ask = |key: &String| {
        let replies = nodes.list.iter().map(|node| node.inspect(key));
        (
            key.clone(),
            Collect::new(replies, |holder: &Option<Holder>| match holder {
                Some(_) => Counts::Granted,
                None => Counts::Refused(NodeState::Free),
            }),
        )
    };
    let mut inspection = Inspection { held: false, remaining: None, nodes: Vec::new() };
    // All keys are asked for before the first answer is awaited.
    for (key, mut votes) in keys.iter().map(ask).collect::<Vec<_>>() {
        // Every node that answers in time: here each one's word is the answer, not only a quorum's.
        votes.until_complete(clock, deadline).await;
        // "Nobody holds it" must not be said by those who could not be asked.
        if votes.answers.iter().flatten().flatten().count() < votes.tally.quorum() {
            votes.silence_counts();
            return Err(nodes.report(&votes, timeout));
        }
        if let Some((remaining, kept)) = quorums_holder(&votes) {
            inspection.held |= !kept;
            inspection.remaining = inspection.remaining.max(remaining);
        }
        let answers = nodes.list.iter().zip(votes.answers);
        inspection.nodes.extend(answers.map(|(node, answer)| word(node, &key, answer)));
    }
    Ok(inspection)
}

/// What is left of the lease that a quorum of nodes knows: the time at which the quorum breaks; and whether it is over,
/// and only stays.
fn quorums_holder(votes: &Collect<Option<Holder>>) -> Option<(Option<Duration>, bool)> {
    let mut by_token: HashMap<&str, Vec<Duration>> = HashMap::new();
    for holder in votes.answers.iter().flatten().flatten().flatten() {
        // Without a known end: behind all that have one.
        let left = holder.remaining.unwrap_or(Duration::MAX);
        by_token.entry(&holder.token).or_default().push(left);
    }
    let needed = votes.tally.quorum();
    let (token, mut lefts) = by_token.into_iter().find(|(_, lefts)| lefts.len() >= needed)?;
    lefts.sort_unstable();
    let left = lefts[lefts.len() - needed];
    Some(((left != Duration::MAX).then_some(left), token.starts_with(KEPT)))
}

/// What one node says about the key, and why it may not vote for it.
fn word(
    node: &Arc<dyn Node>,
    key: &str,
    answer: Option<Result<Option<Holder>, Fault>>,
) -> NodeInspection {
    // Free, but not to be had: that is why an acquire fails although nobody holds the lock.
    let guarded = node.guard_fault(key).map(|fault| fault.to_string());
    let (state, holder, error) = match answer {
        Some(Ok(Some(holder))) if holder.token.starts_with(KEPT) => {
            (NodeState::Kept, Some(holder), guarded)
        }
        Some(Ok(Some(holder))) => (NodeState::Held, Some(holder), guarded),
        Some(Ok(None)) => (NodeState::Free, None, guarded),
        Some(Err(fault)) => (NodeState::Fault, None, Some(fault.to_string())),
        None => (NodeState::Fault, None, Some("no answer in time".to_owned())),
    };
    NodeInspection {
        url: node.url().to_owned(),
        key: key.to_owned(),
        state,
        remaining: holder.as_ref().and_then(|holder| holder.remaining),
        // It may be anybody's text: escaped, as it goes to terminals.
        token: holder.map(|holder| {
            escaped(holder.token.strip_prefix(KEPT).unwrap_or(&holder.token).chars().take(8))
        }),
        error,
    }
}
