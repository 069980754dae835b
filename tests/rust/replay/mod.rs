//! Each test here is a case of rslock's own tests and programs, by meaning, under its name there, in a module that says how it
//! is here: `same`, `better`, `differs`. The table in docs/migrating-from.md has the reasons, and is held against the tests.

mod better;
mod differs;
mod same;
mod table;

use std::time::Duration;

use redlock::Redlock;

use crate::support::{Server, builder, servers, wait};

/// A client whose keys are theirs: the names. Each begins as `make test-acl` allows.
fn on<'a>(nodes: impl IntoIterator<Item = &'a Server>) -> Redlock {
    let urls: Vec<String> = nodes.into_iter().map(Server::url).collect();
    builder(urls).key_prefix("").restart_guard(Duration::ZERO).build().unwrap()
}

/// What nearly all their cases begin with.
fn three() -> (Vec<Server>, Redlock) {
    let nodes = servers(3);
    let client = on(&nodes);
    (nodes, client)
}

/// Until each of the servers has this value: a quorum's answer is enough for the client.
fn all_have(nodes: &[Server], key: &str, value: &str) {
    wait(|| nodes.iter().all(|node| node.ask(&format!("GET {key}")) == value));
}

fn all_gone(nodes: &[Server], key: &str) {
    all_have(nodes, key, "$-1");
}
