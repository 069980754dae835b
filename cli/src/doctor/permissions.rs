//! Findings about the rights of the server's user, and about notifications.

use super::facts::{NodeFacts, ServerFacts, Settings};
use super::findings::Severity::{Error, Note, Warning};
use super::findings::{Finding, found};
use super::rights::{Need, Right};

/// The missing rights as one ACL rule, for this kind of need.
fn missing(
    server: &ServerFacts,
    node: &NodeFacts,
    settings: &Settings,
    is_meant: impl Fn(Need) -> bool,
) -> Option<(String, String)> {
    let rights: Vec<&Right> =
        server.denied.iter().copied().filter(|right| is_meant(right.need)).collect();
    let rights: Vec<_> = rights.into_iter().filter(|right| right.matters(&node.url)).collect();
    let rules: Vec<_> = rights.iter().map(|right| right.rule_for(&settings.key_prefix)).collect();
    let rules = rules.join(" ");
    (!rules.is_empty()).then(|| (format!("ACL SETUSER {} {rules}", node.user), rules))
}

pub(super) fn needed_rights(
    server: &ServerFacts,
    node: &NodeFacts,
    settings: &Settings,
) -> Option<Finding> {
    let is_needed = |need| match need {
        Need::Lock | Need::Sentinel | Need::Cluster | Need::Database => true,
        Need::Guard => !settings.guard.is_zero(),
        Need::Notifications | Need::Feature(_) | Need::Work => false,
    };
    let (fix, rules) = missing(server, node, settings, is_needed)?;
    found(
        Error,
        "rights",
        format!("its user lacks {rules}"),
        "No lock works without these rights",
        fix,
    )
}

/// Why there are no notifications, except for a missing right.
pub(super) fn untracked(server: &ServerFacts) -> Option<String> {
    let is_denied = server.denied.iter().any(|right| right.need == Need::Notifications);
    if is_denied {
        return Some(String::new());
    }
    if !server.resp3 {
        return Some("the connection uses RESP2".to_owned());
    }
    server.untracked.as_ref().map(|error| format!("CLIENT TRACKING is refused: {error}"))
}

pub(super) fn notifications(
    server: &ServerFacts,
    node: &NodeFacts,
    settings: &Settings,
) -> Option<Finding> {
    let what = untracked(server)?;
    let missing = missing(server, node, settings, |need| need == Need::Notifications);
    let (fix, what) = match missing {
        Some((fix, rules)) => (fix, format!("its user lacks {rules}")),
        None => (
            "Remove protocol=2 from the URL, and connect to the server without a proxy that lacks HELLO 3 or tracking"
                .to_owned(),
            what,
        ),
    };
    let why = "The server sends no notifications: waiting callers poll, and a loss is noticed at the next renewal";
    found(Warning, "notifications", what, why, fix)
}

pub(super) fn features(
    server: &ServerFacts,
    node: &NodeFacts,
    settings: &Settings,
) -> Option<Finding> {
    let is_meant = |need| matches!(need, Need::Feature(_) | Need::Work | Need::Guard);
    let is_config = |right: &&Right| right.rule == "+config|get" || right.rule == "+scan";
    let denied = server.denied.iter().copied().filter(|right| !is_config(right)).collect();
    let server = ServerFacts { denied, ..server.clone() };
    let (fix, rules) = missing(&server, node, settings, is_meant)?;
    let mut features: Vec<_> = server
        .denied
        .iter()
        .filter_map(|right| if let Need::Feature(name) = right.need { Some(name) } else { None })
        .collect();
    features.dedup();
    let why = if features.is_empty() {
        "Locks work, and send other commands instead, which cost more".to_owned()
    } else {
        format!("These do not work: {}", features.join(", "))
    };
    found(Note, "optional-rights", format!("its user lacks {rules}"), why, fix)
}
