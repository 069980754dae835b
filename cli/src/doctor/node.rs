//! Findings about one node, by its replies to a client.

use super::facts::{NodeFacts, Settings};
use super::findings::Severity::{Error, Warning};
use super::findings::{Finding, found};
use super::permissions::untracked;
use super::server::{NO_ROOM, connections, crowded};
use super::set::failed_trial;
use crate::times;

/// What to do about an error that a server replies.
const FOLLOW: &str = "Follow the error, which is that of the server";

const OTHER_SCHEME: &str = "Write rediss:// for a TLS port, and redis:// for another one";

/// Parts of errors: code, and what to do. The first that matches counts, so the most special ones come first.
const UNREACHABLE: [(&str, &str, &str); 18] = [
    (
        "sentinel_password",
        "login",
        "Add the login of the sentinels to the URL as sentinel_username and sentinel_password, or correct it",
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
    (NO_ROOM, "connections", "Raise maxclients, or find the program that opens most connections"),
    ("BUSY ", "votes", FOLLOW),
    (
        "do not know the service",
        "topology",
        "Correct the name of the service at the end of the URL. SENTINEL MASTERS lists those of a sentinel",
    ),
    (
        "'SENTINEL'",
        "topology",
        "List sentinels in the URL, which have other ports. For the server itself, write redis:// without a service",
    ),
    ("Use redis", "topology", "Change the URL as the error says"),
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
    (
        "TLS handshake with",
        "unreachable",
        "Check that the server is not frozen, and that this is its TLS port",
    ),
    ("TLS port", "tls", OTHER_SCHEME),
    ("rediss", "tls", OTHER_SCHEME),
    ("TLS: ", "tls", "Follow the error. The server must offer TLS 1.2 or 1.3"),
    (
        "",
        "unreachable",
        "Check that the server runs and is not frozen, and that no firewall drops the packets",
    ),
];

pub(super) fn unreachable(node: &NodeFacts, _: &Settings) -> Option<Finding> {
    let error = node.servers.as_ref().err()?;
    if node.latency.is_some() {
        if error.contains(NO_ROOM) {
            return crowded(format!("it refused a connection: {error}"));
        }
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
    // Only the first connection knows why the servers of a cluster are unknown.
    let error = node.error.as_ref().unwrap_or(error);
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

pub(super) fn trial_of_node(node: &NodeFacts, settings: &Settings) -> Option<Finding> {
    let trial = node.trial.as_ref()?;
    let is_crowded = match &node.servers {
        Ok(servers) => servers.iter().any(|server| connections(server, node, settings).is_some()),
        Err(error) => error.contains(NO_ROOM),
    };
    let is_untracked = node.known_servers().iter().any(|server| untracked(server).is_some());
    // Another finding may say why.
    let is_explained = match trial.failed {
        Some(_) => trial.is_refused_connection() && is_crowded,
        None => is_untracked,
    };
    failed_trial(trial, "on it").filter(|_| !is_explained)
}

pub(super) fn votes(node: &NodeFacts, _: &Settings) -> Option<Finding> {
    let error = node.error.as_ref().filter(|_| node.latency.is_none() && node.servers.is_ok())?;
    found(
        Error,
        "votes",
        format!("it would grant no lock: {error}"),
        "The quorum has one node less to spare",
        FOLLOW,
    )
}
