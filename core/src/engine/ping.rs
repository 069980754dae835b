//! Which nodes reply, and whether a quorum would grant a lock now.

use std::sync::Arc;
use std::time::Duration;

use crate::error::NodeState;
use crate::node::{Guarded, Reply};
use crate::quorum::{Collect, Nodes, Until};

/// Whether the nodes would grant locks, from [`Redlock::ping`](crate::Redlock::ping).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let ping = client.ping(std::time::Duration::from_secs(1)).await?;
/// assert!(ping.ready && ping.nodes[0].ready);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ping {
    /// Whether a quorum of the nodes would grant a lock now.
    pub ready: bool,
    /// The time until a quorum would, if only `restart_guard` prevents it. 0 if it would now. `None` if too few nodes
    /// replied.
    pub ready_in: Option<Duration>,
    /// The reply of each node, in the order of the client's nodes.
    pub nodes: Vec<NodePing>,
}

/// The reply of one node to a [`Ping`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodePing {
    /// The node's URL, without its password.
    pub url: String,
    /// Whether it would grant a lock now.
    pub ready: bool,
    /// The time until it would, because of `restart_guard`. 0 if it would now. `None` if that is unknown.
    pub ready_in: Option<Duration>,
    /// The time from the call to its reply. The first one includes connecting. `None` if it did not reply, or with an
    /// error.
    pub latency: Option<Duration>,
    /// Why it would grant no lock.
    pub error: Option<String>,
}

/// Asks each node about this key, which does not exist, and waits for all replies within the timeout.
pub(crate) async fn ping(nodes: &Nodes, key: &str, timeout: Duration) -> Ping {
    let asked = nodes.clock.now();
    let replies = nodes.list.iter().map(|node| {
        let (reply, clock) = (node.ping(key, timeout), Arc::clone(&nodes.clock));
        let timed: Reply<Duration> =
            Box::pin(async move { reply.await.map(|()| clock.now().since(asked)) });
        timed
    });
    let mut votes = Collect::new(replies, |_| NodeState::Granted);
    votes.until(Until::Complete, &*nodes.clock, asked + timeout).await;
    votes.count_silence();
    let reports = nodes.report(&votes, timeout).into_iter().zip(&nodes.list).zip(&votes.answers);
    let pings = reports.map(|((report, node), answer)| {
        let latency = answer.as_ref().and_then(|answer| answer.as_ref().ok()).copied();
        let guarded = node.guarded(key);
        let wait = guarded.map_or(Some(Duration::ZERO), |guarded| guarded.left);
        let ready_in = wait.filter(|_| latency.is_some());
        let guard = || guarded.map(Guarded::fault).map(|fault| fault.to_string());
        let ready = ready_in == Some(Duration::ZERO);
        NodePing { url: report.url, ready, ready_in, latency, error: report.error.or_else(guard) }
    });
    let pings: Vec<_> = pings.collect();
    let ready_in = quorum_in(&pings, votes.tally.quorum());
    Ping { ready: ready_in == Some(Duration::ZERO), ready_in, nodes: pings }
}

/// The time until this many nodes would grant a lock.
fn quorum_in(nodes: &[NodePing], quorum: usize) -> Option<Duration> {
    let mut waits: Vec<_> = nodes.iter().filter_map(|node| node.ready_in).collect();
    waits.sort_unstable();
    waits.get(quorum - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_is_ready_when_enough_nodes_are() {
        let node = |ready_in: Option<u64>| NodePing {
            url: String::new(),
            ready: ready_in == Some(0),
            ready_in: ready_in.map(Duration::from_secs),
            latency: None,
            error: None,
        };
        for (nodes, expected) in [
            (vec![Some(0)], Some(0)),
            (vec![Some(5)], Some(5)),
            (vec![None], None),
            (vec![Some(0), Some(9), Some(5)], Some(5)),
            (vec![None, Some(0), Some(0)], Some(0)),
            (vec![None, None, Some(0)], None),
            (vec![Some(1), None, Some(2), Some(3), None], Some(3)),
        ] {
            let pings: Vec<_> = nodes.iter().copied().map(node).collect();
            let found = quorum_in(&pings, nodes.len() / 2 + 1);
            assert_eq!(found, expected.map(Duration::from_secs), "{nodes:?}");
        }
    }
}
