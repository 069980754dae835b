//! The test cases and programs of rslock, reproduced by meaning and under their original names. The module is the
//! verdict: `same`, `better` or `differs`. The table in docs/contributing/replayed-tests.md has the reasons and is
//! checked against these tests.

mod better;
mod differs;
mod same;
mod table;

use std::time::Duration;

use redlock::Redlock;

use crate::support::{Server, builder, servers, wait};

/// A client that uses the names as keys, as rslock does. Each name begins as `make test-acl` allows.
fn on<'a>(nodes: impl IntoIterator<Item = &'a Server>) -> Redlock {
    let urls: Vec<String> = nodes.into_iter().map(Server::url).collect();
    builder(urls).key_prefix("").restart_guard(Duration::ZERO).build().unwrap()
}

/// The setup of nearly all cases.
fn three() -> (Vec<Server>, Redlock) {
    let nodes = servers(3);
    let client = on(&nodes);
    (nodes, client)
}

/// Waits until each server has this value. The client itself needs only the replies of a quorum.
fn all_have(nodes: &[Server], key: &str, value: &str) {
    wait(|| nodes.iter().all(|node| node.ask(&format!("GET {key}")) == value));
}

fn all_gone(nodes: &[Server], key: &str) {
    all_have(nodes, key, "$-1");
}
