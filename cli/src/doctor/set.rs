//! Findings about all nodes together.

use std::time::Duration;

use super::facts::{Facts, NodeFacts};
use super::findings::Severity::{Error, Note, Warning};
use super::findings::{Finding, found};
use super::live::Trial;
use super::server::crowded;
use crate::times;

pub(super) fn quorum(facts: &Facts) -> Option<Finding> {
    let (needed, count) = (facts.nodes.len() / 2 + 1, facts.nodes.len());
    let ready = facts.nodes.iter().filter(|node| node.ready_in == Some(Duration::ZERO)).count();
    match facts.ready_in {
        Some(Duration::ZERO) => None,
        Some(left) => found(
            Warning,
            "guarded",
            format!("a quorum grants locks in {} only", times::shown(left)),
            "Nodes that have restarted grant no lock during restart_guard, because they may have lost locks",
            "Wait, and restart one node at a time, with at least restart_guard in between",
        ),
        None => found(
            Error,
            "no-quorum",
            format!("{ready} of {count} nodes would grant a lock, and {needed} must"),
            "No client can acquire a lock",
            "Fix the errors of the nodes below",
        ),
    }
}

pub(super) fn count(facts: &Facts) -> Option<Finding> {
    match facts.nodes.len() {
        1 => found(
            Note,
            "one-node",
            "there is one node",
            "While it is down there are no locks, and its failover or restart may lose locks",
            "If that matters, use three or five independent servers",
        ),
        count if count % 2 == 0 => found(
            Warning,
            "even",
            format!("there are {count} nodes, an even number"),
            format!("They tolerate no more failures than {} would, and cost more", count - 1),
            format!("Use {} or {} nodes", count - 1, count + 1),
        ),
        _ => None,
    }
}

pub(super) fn same_server(facts: &Facts) -> Option<Finding> {
    let id = |node: &NodeFacts| {
        let ids = node.servers.iter().flatten().filter_map(|server| server.field("run_id"));
        ids.map(str::to_owned).next()
    };
    let ids: Vec<_> = facts.nodes.iter().map(|node| (id(node), &node.url)).collect();
    let twice = ids.iter().enumerate().find_map(|(at, (id, url))| {
        let first = ids[..at].iter().find(|(other, _)| id.is_some() && other == id)?;
        Some((first.1, *url))
    });
    let (one, other) = twice?;
    found(
        Error,
        "same-server",
        format!("{one} and {other} are the same server"),
        "It would vote twice, so a quorum would not need a majority of the servers",
        "List each server once, or correct the address that leads to the wrong one",
    )
}

pub(super) fn clocks(facts: &Facts) -> Option<Finding> {
    let servers = facts.nodes.iter().flat_map(|node| node.servers.iter().flatten());
    let clocks: Vec<_> = servers.filter_map(|server| server.ahead).collect();
    let (first, last) =
        (clocks.iter().copied().reduce(f64::min)?, clocks.iter().copied().reduce(f64::max)?);
    let apart = last - first;
    if apart < 1.0 {
        return None;
    }
    found(
        Warning,
        "clocks",
        format!("the clocks of the servers are {apart:.0} s apart"),
        "TTLs are durations, so this alone does no harm. A clock without synchronization may be stepped, which ends \
         locks too early, and fencing tokens then depend on the fastest clock",
        "Synchronize the clocks of all servers (chrony, ntpd), and let them slew instead of step",
    )
}

pub(super) fn clusters(facts: &Facts) -> Option<Finding> {
    let is_cluster = |node: &&NodeFacts| node.url.contains("+cluster://");
    let clusters = facts.nodes.iter().filter(is_cluster).count();
    if clusters == 0 || facts.nodes.len() == 1 {
        return None;
    }
    found(
        Note,
        "clusters",
        format!("{clusters} of {} nodes are a Redis Cluster", facts.nodes.len()),
        "Each cluster is one vote, and may lose locks at a failover",
        "Make sure that the clusters share no server. A single cluster, or plain servers, are simpler",
    )
}

pub(super) fn trial_of_set(facts: &Facts) -> Option<Finding> {
    failed_trial(facts.trial.as_ref()?, "over the quorum")
}

pub(super) fn failed_trial(trial: &Trial, place: &str) -> Option<Finding> {
    if let Some((step, error)) = &trial.failed {
        let what = format!("cannot {step} a lock {place}: {error}");
        if trial.is_refused_connection() {
            return crowded(what);
        }
        return found(
            Error,
            "trial",
            what,
            "Programs get the same error",
            "Follow the error. If it names a right, grant it",
        );
    }
    found(
        Warning,
        "unnotified",
        format!("a holder {place} was not notified of its loss within 2 s"),
        "It notices the loss only at its next renewal, and waiting callers poll",
        "Check that the server, or a proxy in front of it, supports CLIENT TRACKING with RESP3",
    )
    .filter(|_| trial.notified == Some(false))
}
