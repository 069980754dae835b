//! Findings about where a server keeps its data, and how it loses them.

use std::time::Duration;

use super::facts::{NodeFacts, ServerFacts, Settings};
use super::findings::Severity::{Error, Note, Warning};
use super::findings::{Finding, found};
use crate::times;

pub(super) fn eviction(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let policy = server.field("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let is_limited = server.number("maxmemory")? > 0;
    found(
        if is_limited { Error } else { Note },
        "eviction",
        format!(
            "maxmemory-policy is {policy}, with {} maxmemory",
            if is_limited { "a" } else { "no" }
        ),
        "If memory is full, the server deletes keys, also those of locks. Two clients may then hold the same lock",
        "CONFIG SET maxmemory-policy noeviction, and in the configuration. Keep caches on another server",
    )
}

pub(super) fn memory(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let (most, used) =
        (server.number("maxmemory").filter(|most| *most > 0)?, server.number("used_memory")?);
    let percent = used.saturating_mul(100) / most;
    if percent < 90 {
        return None;
    }
    found(
        if percent >= 100 { Error } else { Warning },
        "memory",
        format!("{percent} % of maxmemory is used"),
        "A full server refuses writes (OOM), so it grants no lock",
        "Raise maxmemory, or delete data. Locks need some hundred bytes each",
    )
}

pub(super) fn snapshots(server: &ServerFacts, _: &NodeFacts, _: &Settings) -> Option<Finding> {
    let fails = ["rdb_last_bgsave_status", "aof_last_write_status"]
        .into_iter()
        .find(|name| server.field(name).is_some_and(|status| status != "ok"))?;
    found(
        Error,
        "disk",
        format!("it cannot write its data to disk ({fails} is not ok)"),
        "It refuses all writes (MISCONF), so it grants no lock",
        "Look at its log, and free space on its disk or correct the rights of its folder",
    )
}

/// Below this TTL, a vote has less time than two syncs per second need.
const SHORT_FOR_TWO_SYNCS: Duration = Duration::from_secs(8);

/// Whether the server writes an append-only file.
fn has_log(server: &ServerFacts) -> Option<bool> {
    Some(server.field("aof_enabled")? == "1")
}

/// How often the server syncs its log, if it shows that.
fn appendfsync(server: &ServerFacts) -> Option<&str> {
    server.config.get("appendfsync").map(String::as_str)
}

/// With `--fsync`, each vote waits for the disk.
pub(super) fn sync(server: &ServerFacts, _: &NodeFacts, settings: &Settings) -> Option<Finding> {
    let is_needed = settings.fsync && has_log(server)?;
    let is_short = settings.ttl < SHORT_FOR_TWO_SYNCS;
    let (severity, what, why) = match appendfsync(server).filter(|_| is_needed)? {
        "everysec" if is_short => (
            Warning,
            "it syncs its disk once per second",
            "An acquire or a renewal may take two seconds, for which a TTL below 8 s is too short",
        ),
        "everysec" => (
            Note,
            "it syncs its disk once per second",
            "An acquire or a renewal may take two seconds",
        ),
        "no" => (
            Error,
            "it leaves it to the system when to sync its disk",
            "An acquire with --fsync fails, because its lock is not on disk in time",
        ),
        _ => return None,
    };
    found(severity, "sync", what, why, "CONFIG SET appendfsync always, and in the configuration")
}

pub(super) fn persistence(
    server: &ServerFacts,
    _: &NodeFacts,
    settings: &Settings,
) -> Option<Finding> {
    let has_log = has_log(server)?;
    let sync = appendfsync(server);
    if settings.fsync && has_log {
        return None;
    }
    let lost = match (has_log, sync, server.config.get("save").map(String::as_str)) {
        (true, Some("always"), _) => return None,
        (true, Some("no"), _) => "the locks of the last half minute or so",
        (true, None, _) => "the locks of the last second, unless appendfsync is always",
        (true, ..) => "the locks of the last second",
        (false, _, Some("")) => "all locks",
        (false, _, None) => "all locks, or those since its last snapshot",
        (false, ..) => "the locks since its last snapshot",
    };
    let is_guarded = settings.guard >= settings.ttl;
    let guard = times::shown(settings.guard);
    let why = if is_guarded {
        format!(
            "It grants no lock for {guard} after a restart (restart_guard), until those have ended"
        )
    } else {
        "Another client can then acquire a lock whose holder goes on".to_owned()
    };
    let is_light = is_guarded || (has_log && sync != Some("no"));
    found(
        if is_light { Note } else { Warning },
        "persistence",
        format!("a restart loses {lost}"),
        why,
        "If that matters: appendonly yes and appendfsync always, with --fsync (Redis 7.2 or Valkey). Or several nodes with a \
         restart_guard of at least the TTL",
    )
}
