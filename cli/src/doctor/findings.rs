//! Judges the facts: what is wrong for locks, why it matters, and how to fix it. Asks nothing.
//!
//! Each check is a function of [`OF_SET`], [`OF_NODE`] or [`OF_SERVER`].

use super::facts::{Facts, NodeFacts, ServerFacts, Settings};
use super::node::{latency, restarted, trial_of_node, unreachable, votes};
use super::permissions::{features, needed_rights, notifications};
use super::server::{connections, idle, old, other_server, proxy, replicas, role, unseen};
use super::set::{clocks, clusters, count, quorum, same_server, trial_of_set};
use super::storage::{eviction, memory, persistence, snapshots, sync};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Worth knowing.
    Note,
    /// Locks work, and are worse than they could be, or may fail later.
    Warning,
    /// Locks do not work, or two clients may hold one.
    Error,
}

use Severity::{Error, Note, Warning};

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Note => "note",
            Warning => "warning",
            Error => "error",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// What programs compare.
    pub(super) code: &'static str,
    /// The node, or `None` for all of them together.
    pub(super) node: Option<String>,
    /// The address of one server, if the node has several.
    pub(super) server: Option<String>,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) fix: String,
}

/// A finding of which the node is not known yet.
#[expect(clippy::unnecessary_wraps, reason = "the result of a check")]
pub(super) fn found(
    severity: Severity,
    code: &'static str,
    what: impl Into<String>,
    why: impl Into<String>,
    fix: impl Into<String>,
) -> Option<Finding> {
    Some(Finding {
        severity,
        code,
        node: None,
        server: None,
        what: what.into(),
        why: why.into(),
        fix: fix.into(),
    })
}

const OF_SET: [fn(&Facts) -> Option<Finding>; 6] =
    [quorum, count, same_server, clocks, clusters, trial_of_set];
const OF_NODE: [fn(&NodeFacts, &Settings) -> Option<Finding>; 5] =
    [unreachable, restarted, latency, trial_of_node, votes];
type OfServer = fn(&ServerFacts, &NodeFacts, &Settings) -> Option<Finding>;
const OF_SERVER: [OfServer; 16] = [
    role,
    old,
    eviction,
    memory,
    snapshots,
    persistence,
    sync,
    needed_rights,
    notifications,
    features,
    connections,
    proxy,
    other_server,
    idle,
    replicas,
    unseen,
];

/// All findings, the worst first.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all: Vec<_> = OF_SET.iter().filter_map(|check| check(facts)).collect();
    for node in &facts.nodes {
        let servers = node.known_servers();
        let of_servers = servers.iter().flat_map(|server| {
            let address = (servers.len() > 1).then(|| server.address.clone());
            let found = OF_SERVER.iter().filter_map(|check| check(server, node, &facts.settings));
            found.map(move |one| Finding { server: address.clone(), ..one })
        });
        let mut of_node: Vec<_> = of_servers.collect();
        of_node.extend(OF_NODE.iter().filter_map(|check| check(node, &facts.settings)));
        // Only if nothing else explains why a node grants no lock.
        let is_explained = of_node.iter().any(|one| one.severity == Error && one.code != "votes")
            || all.iter().any(|one| one.code == "same-server");
        of_node.retain(|one| one.code != "votes" || !is_explained);
        all.extend(of_node.into_iter().map(|one| Finding { node: Some(node.url.clone()), ..one }));
    }
    all.sort_by_key(|one| std::cmp::Reverse(one.severity));
    all
}
