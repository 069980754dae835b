//! `redlock inspect`, `ls`, `wait` and `release`.

use std::process::Stdio;

use serde_json::Value;

use super::command::{Running, outcome, redlock_at};
use super::run::{until, with_events};
use crate::support::{Server, eventually_blocking, servers};

pub(super) fn holding(server: &Server) -> Running {
    let words = ["run", "--label", "web-3", "job", "--", "sh", "-c", "echo ready; exec cat"];
    let mut command = redlock_at(server, &words);
    command.stdin(Stdio::piped());
    Running::ready(command)
}

#[test]
fn inspect_shows_the_holder_on_each_node() {
    let nodes = servers(3);
    let urls = nodes.iter().map(Server::url).collect::<Vec<_>>().join(" ");
    let command = |words: &[&str]| {
        let mut command = redlock_at(&nodes[0], words);
        command.env("REDLOCK_NODES", &urls);
        command
    };
    let words = [
        "run",
        "--restart-guard",
        "0",
        "--label",
        "web-3",
        "job",
        "sh",
        "-c",
        "echo ready; exec cat",
    ];
    let mut hold = command(&words);
    hold.stdin(Stdio::piped());
    let holder = Running::ready(hold);
    let look = || outcome(command(&["inspect", "job", "--json", "--restart-guard", "0"]));
    // A quorum has granted, and the third node is about to.
    eventually_blocking("all nodes have the key", || {
        look().stdout.matches("\"state\":\"held\"").count() == 3
    });
    let found: Value = serde_json::from_str(&look().stdout).unwrap();
    assert_eq!((&found["held"], &found["holder"]), (&true.into(), &"web-3".into()));
    assert!(found["remaining"].as_f64().unwrap() > 0.0);
    for (node, server) in found["nodes"].as_array().unwrap().iter().zip(&nodes) {
        assert!(node["url"].as_str().unwrap().ends_with(&server.port.to_string()));
        assert_eq!((&node["key"], &node["label"]), (&"lock:job".into(), &"web-3".into()));
        assert_eq!(node["token"].as_str().unwrap().len(), 8);
    }
    let text = outcome(command(&["inspect", "job", "--restart-guard", "0"])).stdout;
    assert!(text.starts_with("job: held by web-3, "), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("  held  ")).count(), 3, "{text}");
    assert_eq!(holder.status(), 0);
    let text = outcome(command(&["inspect", "job", "--restart-guard", "0"])).stdout;
    assert!(text.starts_with("job: free\n"), "{text}");
}

#[test]
fn inspect_counts_the_permits_of_a_semaphore() {
    let server = Server::start();
    let inside = [
        "run",
        "--permits",
        "2/3",
        "pool",
        "--",
        env!("CARGO_BIN_EXE_command"),
        "inspect",
        "pool",
        "--limit",
        "3",
    ];
    let text = outcome(redlock_at(&server, &inside)).stdout;
    assert!(text.starts_with("pool: 2 of 3 permits taken\n"), "{text}");
}

#[test]
fn inspect_shows_a_lock_that_min_hold_keeps() {
    let server = Server::start();
    let words = ["run", "--ttl", "60", "--min-hold", "50", "job", "true"];
    assert_eq!(outcome(redlock_at(&server, &words)).status, 0);
    let text = outcome(redlock_at(&server, &["inspect", "job"])).stdout;
    assert!(text.starts_with("job: released, but kept by min_hold, "), "{text}");
    assert_eq!(outcome(redlock_at(&server, &["wait", "job"])).status, 0, "not held");
}

#[test]
fn wait_returns_when_the_lock_is_free() {
    let server = Server::start();
    assert_eq!(outcome(redlock_at(&server, &["wait", "job"])).status, 0);
    let holder = holding(&server);
    for (options, status) in [(&["-w", "0"][..], 1), (&["--timeout", "0.1", "-E", "42"], 42)] {
        let outcome = outcome(redlock_at(&server, &[&["wait", "job"], options].concat()));
        assert_eq!(outcome.status, status);
        assert!(outcome.stderr.contains("job is still held by web-3, "), "{}", outcome.stderr);
    }
    let waiting = Running::start(redlock_at(&server, &["wait", "job"]));
    assert_eq!(holder.status(), 0);
    assert_eq!(waiting.status(), 0);
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "not acquired");
}

#[test]
fn release_deletes_the_lock_of_another_client() {
    let server = Server::start();
    let holder = holding(&server);
    let refused = outcome(redlock_at(&server, &["release", "job", "--force"]));
    assert_eq!(refused.status, 64);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let release = || outcome(redlock_at(&server, &["release", "job", "--force", "--yes"]));
    assert_eq!(release().stdout, "job: released\n");
    assert_eq!(holder.status(), 99, "its command is ended");
    assert_eq!(release().stdout, "job: was free\n");
}

#[test]
fn release_refuses_a_key_that_is_not_a_lock() {
    let server = Server::start();
    server.ask("LPUSH lock:job data");
    let outcome = outcome(redlock_at(&server, &["release", "job", "--force", "--yes"]));
    assert_eq!(outcome.status, 78, "{}", outcome.stderr);
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
}

/// The number of its permits is not stored, and its keys are not that of a lock.
#[test]
fn semaphore_without_its_limit_is_not_shown_as_free() {
    let server = Server::start();
    let words = ["run", "--permits", "2/3", "pool", "--", "sh", "-c", "echo ready; exec cat"];
    let mut command = redlock_at(&server, &words);
    command.stdin(Stdio::piped());
    let holder = Running::ready(command);
    let commands: [&[&str]; 3] = [&["inspect"], &["wait"], &["release", "--force", "--yes"]];
    for words in commands {
        let outcome = outcome(redlock_at(&server, &[words, &["pool"]].concat()));
        assert_eq!((outcome.status, &*outcome.stdout), (64, ""), "{words:?}");
        let expected = "pool is a semaphore, of which 2 permits are taken";
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("--limit"), "{}", outcome.stderr);
    }
    assert_eq!(server.ask("DBSIZE"), ":2", "nothing was released");
    assert_eq!(outcome(redlock_at(&server, &["wait", "--limit", "3", "pool"])).status, 0);
    assert_eq!(holder.status(), 0);
    assert_eq!(outcome(redlock_at(&server, &["inspect", "pool"])).status, 0);
}

#[test]
fn wait_goes_on_while_the_server_restarts() {
    let mut server = Server::start();
    server.ask("SET lock:job other PX 600000");
    let (waiting, mut events) = with_events(redlock_at(&server, &["wait", "--json", "job"]));
    eventually_blocking("connected", || server.text("CLIENT LIST").contains("name=redlock-cli"));
    server.kill();
    let message = until(&mut events, "unreachable")["message"].to_string();
    assert!(message.contains("lock:job: not available"), "{message}");
    server.restart();
    server.ask("DEL lock:job");
    assert_eq!(until(&mut events, "free")["name"], "job");
    assert_eq!(waiting.status(), 0);
}
