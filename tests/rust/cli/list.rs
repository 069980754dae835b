//! `redlock ls`: every lock on every server, and no other key.

use std::process::Stdio;

use serde_json::Value;

use super::command::{Running, outcome, redlock_at};
use super::looking::holding;
use crate::support::{Cluster, Server, servers};

/// The rights of the tests' user, and the one that only a list needs.
fn lists(server: &Server) {
    server.ask("ACL SETUSER least +scan");
}

#[test]
fn list_shows_locks_and_semaphores_with_the_time_on_each_node() {
    let server = Server::start();
    lists(&server);
    let holder = holding(&server);
    let words = ["run", "--permits", "2/3", "pool", "--", "sh", "-c", "echo ready; exec cat"];
    let mut command = redlock_at(&server, &words);
    command.stdin(Stdio::piped());
    let permits = Running::ready(command);
    let kept = ["run", "--ttl", "60", "--min-hold", "50", "--fencing", "orders:{eu}", "true"];
    assert_eq!(outcome(redlock_at(&server, &kept)).status, 0);
    // Keys of other programs, and of clients with another prefix.
    server.ask("SET other 1");
    server.ask("SET clock:job 1");
    server.ask("LPUSH lock:queue data");
    // More than one page, and a prefix of special characters.
    for number in 0..3000 {
        server.ask(&format!("SET data:{number} 1"));
    }
    let words = ["run", "--shared", "config", "--", "sh", "-c", "echo ready; exec cat"];
    let mut command = redlock_at(&server, &words);
    command.stdin(Stdio::piped());
    let reader = Running::ready(command);
    let text = outcome(redlock_at(&server, &["ls"])).stdout;
    let rows: Vec<Vec<_>> = text.lines().map(|line| line.split("  ").collect()).collect();
    let cells =
        |row: usize| rows[row].iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
    let cells: Vec<Vec<_>> = (0..rows.len()).map(|row| cells(row).collect()).collect();
    assert_eq!(cells.len(), 5, "{text}");
    assert_eq!(cells[0], ["NAME", "KIND", "HOLDER", "LEFT ON EACH NODE"]);
    assert_eq!(cells[1][..3], ["config", "rwlock", "readers"], "{text}");
    assert_eq!(cells[2][..3], ["job", "mutex", "web-3"], "{text}");
    assert_eq!(cells[3][..3], ["orders:{eu}", "mutex", "(kept by min_hold)"], "{text}");
    assert_eq!(cells[4][..3], ["pool", "semaphore", "2 permits taken"], "{text}");
    assert!(cells[1..].iter().all(|row| row[3].ends_with(" s")), "{text}");
    let some = outcome(redlock_at(&server, &["ls", "--json", "j*"])).stdout;
    let some: Value = serde_json::from_str(&some).unwrap();
    let [job] = &some.as_array().unwrap()[..] else { panic!("{some}") };
    assert_eq!(
        (&job["name"], &job["kind"], &job["holder"]),
        (&"job".into(), &"mutex".into(), &"web-3".into())
    );
    assert_eq!(
        outcome(redlock_at(&server, &["ls", "--key-prefix", "[x]*"])).stdout.lines().count(),
        1
    );
    assert_eq!([holder.status(), permits.status(), reader.status()], [0, 0, 0]);
}

#[test]
fn list_is_watched_until_a_signal() {
    let server = Server::start();
    lists(&server);
    let words = ["ls", "--watch", "--interval", "0.01", "--json"];
    let mut watching = Running::start(redlock_at(&server, &words));
    assert_eq!(watching.line(), "[]");
    let holder = holding(&server);
    while watching.line() == "[]" {}
    assert_eq!(holder.status(), 0);
    while watching.line() != "[]" {}
    watching.signal(libc::SIGINT);
    assert_eq!(watching.status(), -libc::SIGINT);
}

#[test]
fn list_needs_the_right_to_scan() {
    let server = Server::start();
    server.ask("ACL SETUSER none on >s3cret-word ~lock:* ~{lock:*}#* resetchannels +@all -scan");
    let url = format!("redis://none:s3cret-word@127.0.0.1:{}", server.port);
    let mut command = redlock_at(&server, &["ls"]);
    command.env("REDLOCK_NODES", url);
    let outcome = outcome(command);
    assert_ne!(outcome.status, 0);
    assert!(
        outcome.stderr.contains("or SCAN for a list") && !outcome.stderr.contains("s3cret"),
        "{}",
        outcome.stderr
    );
}

/// Each server of a cluster has a part of the keys.
#[test]
fn list_has_the_locks_of_every_server_of_a_cluster() {
    let cluster = Cluster::start(3, false);
    for node in &cluster.masters {
        node.ask("ACL SETUSER least +scan");
    }
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        let words = ["run", "--ttl", "60", "--min-hold", "50", name, "true"];
        let mut command = redlock_at(&cluster.masters[0], &words);
        command.env("REDLOCK_NODES", cluster.url());
        assert_eq!(outcome(command).status, 0);
    }
    let mut command = redlock_at(&cluster.masters[0], &["ls", "--json"]);
    command.env("REDLOCK_NODES", cluster.url());
    let list: Value = serde_json::from_str(&outcome(command).stdout).unwrap();
    let listed: Vec<_> = list.as_array().unwrap().iter().map(|lock| lock["name"].clone()).collect();
    assert_eq!(listed, names);
}

/// It must not wait for `connect_timeout`, which is much longer.
#[test]
fn list_does_not_wait_for_a_frozen_node() {
    let nodes = servers(3);
    nodes.iter().for_each(lists);
    for node in &nodes[..2] {
        node.ask("SET lock:job 0123456789abcdef0123456789abcdef:web-3 PX 600000");
    }
    nodes[2].signal(libc::SIGSTOP);
    let mut command = redlock_at(
        &nodes[0],
        &["ls", "--node-timeout", "2", "--connect-timeout", "600", "--restart-guard", "0"],
    );
    command.env("REDLOCK_NODES", nodes.iter().map(Server::url).collect::<Vec<_>>().join(" "));
    let outcome = outcome(command);
    nodes[2].signal(libc::SIGCONT);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("web-3") && outcome.stdout.contains("failed"),
        "{}",
        outcome.stdout
    );
    let frozen = format!("127.0.0.1:{}: no reply within 2.000 s", nodes[2].port);
    assert!(outcome.stderr.contains(&frozen), "{}", outcome.stderr);
}
