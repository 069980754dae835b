//! A snapshot of a lock, as text for people and as JSON for programs.

use std::time::Duration;

use redlock::{Inspection, NodeInspection, NodeState};
use serde_json::{Value, json};

use crate::times;

/// The holder of a lock: its label, otherwise the first digits of its token, or that readers share it. `None` if no
/// client holds it.
pub(crate) fn holder(found: &Inspection) -> Option<String> {
    let token = || {
        found
            .nodes
            .iter()
            .find_map(|node| node.token.clone().filter(|_| node.state == NodeState::Held))
    };
    let owner = if has_readers(found) { Some("readers".to_owned()) } else { found.label.clone() };
    owner.or_else(token).filter(|_| found.held)
}

/// Whether the readers of a read/write lock share it.
pub(crate) fn has_readers(found: &Inspection) -> bool {
    found.mode == Some("read")
}

/// The state of a lock in a few words.
pub(crate) fn summary(found: &Inspection) -> String {
    let left =
        found.remaining.map(|left| format!(", {} left", times::shown(left))).unwrap_or_default();
    if found.limit > 1 {
        return format!("{} of {} permits taken{left}", found.taken, found.limit);
    }
    match holder(found) {
        Some(holder) => {
            let left = if left.is_empty() { ", without a known end" } else { &left };
            format!("held by {holder}{left}")
        }
        None if found.taken > 0 => format!("released, but kept by min_hold{left}"),
        None => "free".to_owned(),
    }
}

/// The reply of a node in one line.
pub(crate) fn node_line(node: &NodeInspection) -> String {
    let left = node.remaining.map(times::shown).unwrap_or_default();
    let mut line = format!("  {}  {}  {}", node.url, redlock::ffi::shown(&node.key), node.state);
    for part in [Some(left), node.token.clone(), node.label.clone(), node.error.clone()]
        .into_iter()
        .flatten()
    {
        if !part.is_empty() {
            line.push_str("  ");
            line.push_str(&part);
        }
    }
    line
}

/// The snapshot as an object. Times are in seconds.
pub(crate) fn object(name: &str, found: &Inspection) -> Value {
    let nodes: Vec<_> = found.nodes.iter().map(node_object).collect();
    json!({
        "name": name,
        "held": found.held,
        "mode": found.mode,
        "holder": holder(found),
        "remaining": seconds(found.remaining),
        "taken": found.taken,
        "limit": found.limit,
        "nodes": nodes,
    })
}

fn node_object(node: &NodeInspection) -> Value {
    json!({
        "url": node.url,
        "key": node.key,
        "state": node.state.as_str(),
        "remaining": seconds(node.remaining),
        "token": node.token,
        "label": node.label,
        "error": node.error,
    })
}

/// A time in seconds, with the digits of whole microseconds.
#[expect(clippy::cast_precision_loss, reason = "exact for ten years, the longest valid time")]
pub(crate) fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_micros() as f64 / 1e6)
}
