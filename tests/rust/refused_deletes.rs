//! Deletes that a server answers with an error stay pending until the server runs them.

use redlock::{ErrorKind, Redlock};

use crate::support::{Server, client, eventually, millis, servers};

/// Ways to make a server refuse deletes: how to start it, how to end it, and the error's code.
const REFUSALS: [(&str, &str, &str); 2] = [
    ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
    (NO_DELETES, DELETES, "NOPERM"),
];
const NO_DELETES: &str = "ACL SETUSER default -del -delex -delifeq";
const DELETES: &str = "ACL SETUSER default +@all";

/// A server that does not know one of the commands refuses the whole rule.
fn configure(server: &Server, command: &str) {
    if server.ask(command) != "+OK" {
        let known = command.replace(" -delex", "").replace(" -delifeq", "");
        assert_eq!(server.ask(&known), "+OK");
    }
}

/// The delete of the release is refused and stays pending.
async fn refused_release(redlock: &Redlock, server: &Server, (begin, code): (&str, &str)) {
    let lease = redlock.lock("job").ttl(millis(600_000)).acquire().await.unwrap();
    configure(server, begin);
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(code) || code == "NOPERM", "{error}");
    assert_eq!(server.ask("DBSIZE"), ":1", "the server refused the delete");
}

#[tokio::test]
async fn retries_a_refused_release_until_the_server_deletes_the_key() {
    for (begin, end, code) in REFUSALS {
        let server = Server::start();
        let redlock = client([&server]);
        refused_release(&redlock, &server, (begin, code)).await;
        configure(&server, end);
        eventually("the key is deleted", || server.ask("DBSIZE") == ":0").await;
    }
}

#[tokio::test]
async fn retries_a_release_that_met_a_busy_script() {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let redlock = client([&server]);
    let lease = redlock.lock("job").ttl(millis(600_000)).acquire().await.unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.ask("EVAL \"while true do end\" 0"));
        // PING is refused too while the script runs.
        crate::support::eventually_blocking("busy", || server.ask("PING").starts_with("-BUSY"));
        let error = std::thread::scope(|scope| {
            scope.spawn(|| crate::support::block_on(lease.release())).join().unwrap().unwrap_err()
        });
        assert!(error.to_string().contains("BUSY"), "{error}");
        assert_eq!(server.ask("SCRIPT KILL"), "+OK");
    });
    eventually("the key is deleted", || server.ask("DBSIZE") == ":0").await;
}

#[tokio::test]
async fn shutdown_waits_for_a_refused_delete() {
    let server = Server::start();
    let redlock = client([&server]);
    let (begin, end, code) = REFUSALS[0];
    refused_release(&redlock, &server, (begin, code)).await;
    let shutdown = tokio::spawn(async move { redlock.shutdown(millis(60_000)).await });
    tokio::task::yield_now().await;
    configure(&server, end);
    shutdown.await.unwrap().unwrap();
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn retries_a_refused_delete_after_the_client_is_dropped() {
    let server = Server::start();
    let redlock = client([&server]);
    let (begin, end, code) = REFUSALS[0];
    refused_release(&redlock, &server, (begin, code)).await;
    drop(redlock);
    configure(&server, end);
    eventually("the key is deleted", || server.ask("DBSIZE") == ":0").await;
}

#[tokio::test]
async fn retries_a_refused_rollback() {
    let nodes = servers(3);
    let (other, redlock) = (client(&nodes), client(&nodes));
    // The client connected before the server changes. Its first round finds two of three nodes taken.
    drop(redlock.lock("first").acquire().await.unwrap().release().await);
    let held = other.lock("job").ttl(millis(600_000)).acquire().await.unwrap();
    eventually("on all nodes", || nodes.iter().all(|node| node.ask("EXISTS lock:job") == ":1"))
        .await;
    assert_eq!(nodes[2].ask("DEL lock:job"), ":1");
    configure(&nodes[2], NO_DELETES);
    let lock = redlock.lock("job").ttl(millis(600_000)).wait(millis(0));
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout);
    eventually("the vote", || nodes[2].ask("EXISTS lock:job") == ":1").await;
    configure(&nodes[2], DELETES);
    eventually("the vote is deleted", || nodes[2].ask("DBSIZE") == ":0").await;
    assert!(held.is_held());
}
