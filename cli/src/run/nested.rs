//! A command of `redlock run` that asks for the lock under which it runs, as a script that calls itself.
//!
//! It would wait for its own end, which flock(1) also does. Its environment has the token of the outer lock.

use std::env;

use redlock::ffi::shown;
use redlock::{Inspection, Lock, NodeState};
use serde_json::json;

use crate::report::Report;
use crate::snapshot::has_readers;

/// How many digits of a token an inspection shows.
const ID_DIGITS: usize = 8;

/// Whether the lock can only be acquired after this process has ended. Says so.
pub(super) async fn is_own(lock: &Lock, name: &str, shared: bool, report: Report) -> bool {
    if env::var("REDLOCK_NAME").ok().as_deref() != Some(name) {
        return false;
    }
    let Ok(token) = env::var("REDLOCK_TOKEN") else { return false };
    // Without a reply, the acquire finds out itself.
    let Ok(found) = lock.inspect().await else { return false };
    let is_own = has_token(&found, &token);
    let name = shown(name);
    let message = if is_own {
        format!("{name} is the lock under which this command runs already. It is not reentrant")
    } else if has_readers(&found) && !shared {
        format!("{name} is shared, perhaps by the lock under which this command runs")
    } else {
        return false;
    };
    let event = if is_own { "failed" } else { "nested" };
    report.problem(event, json!({ "code": "nested", "message": message }), &message);
    is_own
}

/// Whether the holder has this token.
fn has_token(found: &Inspection, token: &str) -> bool {
    let own = token.get(..ID_DIGITS);
    let has = |state, shown: &Option<String>| state == NodeState::Held && shown.as_deref() == own;
    found.held && own.is_some() && found.nodes.iter().any(|node| has(node.state, &node.token))
}
