//! Findings about one server, by what it reports about itself.

use super::facts::{NodeFacts, ServerFacts, Settings};
use super::findings::Severity::{Error, Note, Warning};
use super::findings::{Finding, found};

/// Name and version.
pub(super) fn version(server: &ServerFacts) -> String {
    match (server.field("valkey_version"), server.field("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => "unknown version".to_owned(),
    }
}

pub(super) fn role(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    if server.field("role")? == "master" {
        return None;
    }
    let primary = server.field("master_host").unwrap_or("its primary");
    let port = server.field("master_port").map(|port| format!(":{port}")).unwrap_or_default();
    found(
        Error,
        "replica",
        format!("{} is a replica", server.address),
        "A replica grants no lock",
        format!(
            "Use its primary, {primary}{port}, or list the sentinels in the URL so that failovers are followed"
        ),
    )
}

pub(super) fn old(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let version = server.field("redis_version")?;
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next()?, numbers.next().unwrap_or(0)) >= (6, 2) {
        return None;
    }
    found(
        Warning,
        "version",
        format!("its version is {version}"),
        "Redis before 6.2 is not supported: fencing and min_hold fail, and before 6.0 there are no notifications",
        "Upgrade to Redis 6.2 or newer, or to Valkey",
    )
}

/// What a server without room for a further connection replies.
pub(super) const NO_ROOM: &str = "max number of clients";

/// It has hardly any room for further connections, and `what` shows that.
pub(super) fn crowded(what: String) -> Option<Finding> {
    found(
        Warning,
        "connections",
        what,
        "Beyond maxclients it refuses connections. Each client of locks needs two, and cannot renew without",
        "Raise maxclients and the server's limit of open files, or find the program that opens most connections",
    )
}

pub(super) fn connections(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let (most, used) = (server.number("maxclients")?, server.number("connected_clients")?);
    if used * 10 < most * 8 {
        return None;
    }
    crowded(format!("{used} of {most} connections are used"))
}

pub(super) fn proxy(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let id = server.unknown.iter().find(|rule| ["+client|id", "+client|kill"].contains(rule))?;
    found(
        Warning,
        "proxy",
        format!(
            "it does not know {}, so it may be a proxy",
            id.trim_start_matches('+').replace('|', " ").to_uppercase()
        ),
        "Commands of a broken connection may arrive late, and a proxy may move a client to another server",
        "Connect to the server itself",
    )
}

pub(super) fn other_server(
    server: &ServerFacts,
    node: &NodeFacts,
    _: &Settings,
) -> Option<Finding> {
    let (first, second) = (server.field("run_id")?, server.other_run_id.as_deref()?);
    if first == second || node.url.contains("+sentinel://") {
        return None;
    }
    found(
        Error,
        "several-servers",
        "two connections to this address reached different servers",
        "A lock on one server does not exclude a client of the other, so two clients may hold it",
        "Connect to one server, not to a load balancer. To follow failovers, list the sentinels in the URL",
    )
}

pub(super) fn idle(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let timeout: u64 = server.config.get("timeout")?.parse().ok().filter(|seconds| *seconds > 0)?;
    let severity = if timeout < 60 { Warning } else { Note };
    found(
        severity,
        "idle-timeout",
        format!("it closes connections that are idle for {timeout} s"),
        "Clients reconnect at their next lock, which then takes longer. Waiting callers and holders miss notifications",
        "CONFIG SET timeout 0, and rely on tcp-keepalive",
    )
}

pub(super) fn replicas(
    server: &ServerFacts,
    _: &NodeFacts,
    settings: &Settings,
) -> Option<Finding> {
    let (replicas, needed) = (server.number("connected_slaves")?, settings.min_replicas);
    let some = format!("{replicas} replica{}", if replicas == 1 { "" } else { "s" });
    if replicas < needed.into() && server.field("role") == Some("master") {
        return found(
            Error,
            "replicas",
            format!("it has {some}, and --min-replicas is {needed}"),
            "It grants no lock, because too few replicas can confirm it",
            "Start the missing replicas, or lower --min-replicas and the same option of your programs",
        );
    }
    if replicas == 0 || needed > 0 {
        return None;
    }
    found(
        Note,
        "replicas",
        format!(
            "it has {some}, and locks do not wait for {}",
            if replicas == 1 { "it" } else { "them" }
        ),
        "A failover can lose the locks that its new primary does not have yet",
        "--min-replicas 1, and the same option in your programs",
    )
}

pub(super) fn unseen(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let refused = [("INFO", server.info.is_empty()), ("CONFIG GET", server.config.is_empty())];
    let refused: Vec<_> =
        refused.iter().filter(|(_, refused)| *refused).map(|(name, _)| *name).collect();
    if refused.is_empty() || server.is_busy {
        return None;
    }
    let matters = if server.info.is_empty() {
        "role, version, memory, persistence, uptime and connections"
    } else {
        "the idle timeout, and how often it writes to disk"
    };
    found(
        Note,
        "not-examined",
        format!("it refuses {}", refused.join(" and ")),
        format!("This command could not look at {matters}"),
        "Run it as an administrator of the server, or look at these settings yourself",
    )
}
