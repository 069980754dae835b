//! Lists the locks whose keys are on the nodes, also those of other clients.
//!
//! A listing reads only. It looks at every key of a server, in pages that do not block other commands for long.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{NodeState, Result};
use crate::node::stored_name;
use crate::options::lock::Request;
use crate::quorum::{Collect, Nodes, Until};

/// How long a listing may take. A server with a hundred million keys needs about a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// A lock or a semaphore that has keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLock {
    /// The name, without the client's prefix.
    pub name: String,
    /// For a semaphore, how many permits it has at least.
    pub permits: Option<u32>,
}

/// Returns the locks that any node has a key of, sorted by name. The nodes that replied are a quorum, so every lock
/// that is held throughout is among them.
pub(crate) async fn stored(
    nodes: &Nodes,
    request: &Request,
    prefix: &str,
) -> Result<Vec<StoredLock>> {
    request.connect(nodes).await?;
    let timeout = request.node_timeout();
    let replies = nodes.list.iter().map(|node| node.keys(prefix, timeout));
    let mut votes = Collect::new(replies, |_: &Vec<String>| NodeState::Granted);
    votes.until(Until::Complete, &*nodes.clock, nodes.clock.now() + LIMIT).await;
    if !votes.tally.met() {
        votes.count_silence();
        return Err(request.no_quorum(nodes, &votes, timeout));
    }
    let mut found: BTreeMap<(&str, bool), u32> = BTreeMap::new();
    for key in votes.answers.iter().flatten().flatten().flatten() {
        let Some((name, permit)) = stored_name(key, prefix) else { continue };
        let permits = found.entry((name, permit.is_some())).or_default();
        *permits = (*permits).max(permit.map_or(0, |number| number.saturating_add(1)));
    }
    let lock = |((name, is_semaphore), permits): ((&str, bool), u32)| StoredLock {
        name: name.to_owned(),
        permits: is_semaphore.then_some(permits),
    };
    Ok(found.into_iter().map(lock).collect())
}
