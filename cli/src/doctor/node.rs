//! Findings about one node, by its replies to a client.

use super::facts::{NodeFacts, Settings};
use super::findings::Severity::{Error, Warning};
use super::findings::{Finding, found};
use super::permissions::untracked;
use super::set::failed_trial;
use crate::times;

/// Parts of errors: code, and what to do.
const UNREACHABLE: [(&str, &str, &str); 15] = [
    (
        "sentinel_password",
        "login",
        "Add the login of the sentinels to the URL as sentinel_username and sentinel_password, or correct it",
    ),
    (
        "do not know the service",
        "url",
        "Correct the name of the service in the URL. SENTINEL MASTERS, sent to a sentinel, lists the names",
    ),
    (
        "'SENTINEL'",
        "url",
        "Name the sentinels in the URL, usually with port 26379, or write redis:// for a server",
    ),
    (
        "not part of a Redis Cluster",
        "url",
        "Write redis:// (rediss:// with TLS) for a server that is not in a cluster",
    ),
    (
        "does not use TLS",
        "tls",
        "Use the TLS port of the server, or write redis:// instead of rediss://",
    ),
    ("NOAUTH", "login", "Add user and password to the URL"),
    (
        "WRONGPASS",
        "login",
        "Correct user and password in the URL, or set the password of the user at the server",
    ),
    (
        "password",
        "login",
        "Correct user and password in the URL, or set the password of the user at the server",
    ),
    (
        "LOADING",
        "loading",
        "Wait until it has loaded its data. If that takes long, look at the size of its data",
    ),
    (
        "protected mode",
        "protected",
        "Set a password at the server, and bind it to the address that clients use",
    ),
    (
        "max number of clients",
        "connections",
        "Raise maxclients, or find the program that opens most connections",
    ),
    (
        "refused",
        "unreachable",
        "Start the server, or correct host and port. The server's `bind` may exclude this machine",
    ),
    (
        "certificate",
        "tls",
        "Correct the certificate, or --tls-ca. The page Security has the commands",
    ),
    ("rediss://", "tls", "Write rediss:// for a TLS port, and redis:// for another one"),
    (
        "",
        "unreachable",
        "Check that the server runs and is not frozen, and that no firewall drops the packets",
    ),
];

pub(super) fn unreachable(node: &NodeFacts, _: &Settings) -> Option<Finding> {
    let error = node.servers.as_ref().err()?;
    if node.latency.is_some() {
        // An in-memory node has no server.
        let what = format!(
            "it, or a proxy in front of it, refuses other commands than those of locks: {error}"
        );
        return found(
            Warning,
            "proxy",
            what,
            "This command could not examine it. There may be no notifications, and a proxy may change the server",
            "Connect to the server itself",
        );
    }
    let (_, code, fix) = UNREACHABLE.iter().find(|(part, ..)| error.contains(part))?;
    found(Error, code, error, "It grants no lock, and the quorum has one node less to spare", *fix)
}

pub(super) fn restarted(node: &NodeFacts, settings: &Settings) -> Option<Finding> {
    let left = node.ready_in.filter(|left| !left.is_zero())?;
    found(
        Warning,
        "restarted",
        format!("it has restarted, and grants no lock for {}", times::shown(left)),
        format!("During restart_guard ({}) it may have lost locks", times::shown(settings.guard)),
        "Wait. If that was not on purpose, look at its log, such as for a lack of memory",
    )
}

pub(super) fn latency(node: &NodeFacts, settings: &Settings) -> Option<Finding> {
    let (latency, limit) = (node.latency?, settings.node_timeout);
    if latency * 5 < limit {
        return None;
    }
    let severity = if latency >= limit { Error } else { Warning };
    found(
        severity,
        "latency",
        format!("a reply takes {:.0} ms", latency.as_secs_f64() * 1000.0),
        format!(
            "A node has {:.0} ms for its reply (node_timeout), of a TTL of {}. Slower replies do not count",
            limit.as_secs_f64() * 1000.0,
            times::shown(settings.ttl)
        ),
        "Use a nearer server, look for slow commands (SLOWLOG GET), or raise ttl and node_timeout",
    )
}

pub(super) fn trial_of_node(node: &NodeFacts, _: &Settings) -> Option<Finding> {
    // Without tracking, another finding says why.
    let is_explained = node.servers.iter().flatten().any(|server| untracked(server).is_some());
    let trial = node.trial.as_ref()?;
    failed_trial(trial, "on it").filter(|_| trial.failed.is_some() || !is_explained)
}

pub(super) fn votes(node: &NodeFacts, _: &Settings) -> Option<Finding> {
    let error = node.error.as_ref().filter(|_| node.latency.is_none() && node.servers.is_ok())?;
    found(
        Error,
        "votes",
        format!("it would grant no lock: {error}"),
        "The quorum has one node less to spare",
        "Follow the error, which is that of the server",
    )
}
