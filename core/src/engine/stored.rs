//! Lists the locks whose keys are on the nodes, also those of other clients.
//!
//! A listing reads only. It looks at every key of a server, in pages that do not block other commands for long.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{NodeReport, NodeState, Result};
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

/// The locks that have keys on the nodes.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Sorted by name. Those of which any node has a key.
    pub locks: Vec<StoredLock>,
    /// The nodes without a reply, in the order of the client's nodes.
    pub failed: Vec<NodeReport>,
}

/// Returns the locks that any node has a key of. The nodes that replied are a quorum, so every lock that is held
/// throughout is among them. A node that is silent for `node_timeout` counts as failed.
pub(crate) async fn stored(nodes: &Nodes, request: &Request, prefix: &str) -> Result<Stored> {
    request.connect(nodes).await?;
    let timeout = request.node_timeout();
    let replies = nodes.list.iter().map(|node| node.keys(prefix, timeout));
    let mut votes = Collect::new(replies, |_: &Vec<String>| NodeState::Granted);
    votes.until(Until::Complete, &*nodes.clock, nodes.clock.now() + LIMIT).await;
    votes.count_silence();
    if !votes.tally.met() {
        return Err(request.no_quorum(nodes, &votes, timeout));
    }
    let reports = nodes.report(&votes, timeout).into_iter();
    let failed = reports.filter(|report| report.state == NodeState::Fault).collect();
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
    Ok(Stored { locks: found.into_iter().map(lock).collect(), failed })
}
