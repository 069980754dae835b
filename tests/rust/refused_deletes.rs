//! Deletes that a server answers with an error stay pending until the server runs them.

use redlock::{ErrorKind, NodeState, Redlock};

use crate::support::{Proxy, Server, builder, client, eventually, millis, servers};

/// Ways to make a server refuse deletes: how to start it, how to end it, and the error's code.
const REFUSALS: [(&str, &str, &str); 2] = [
    ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
    (NO_DELETES, DELETES, "NOPERM"),
];
const NO_DELETES: &str = "ACL SETUSER default -del";
const DELETES: &str = "ACL SETUSER default +@all";

fn configure(server: &Server, command: &str) {
    assert_eq!(server.ask(command), "+OK", "{command}");
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

/// Such a key never expires, so that nothing else would delete it.
#[tokio::test]
async fn retries_a_refused_forced_release_of_a_key_without_ttl() {
    for (begin, end, code) in REFUSALS {
        let server = Server::start();
        let redlock = client([&server]);
        assert_eq!(server.ask("SET lock:job theirs"), "+OK");
        assert!(redlock.lock("job").inspect().await.unwrap().held);
        configure(&server, begin);
        let error = redlock.force_release("job").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{code}: {error}");
        assert_eq!(server.ask("DBSIZE"), ":1", "the server refused the delete");
        configure(&server, end);
        eventually("the key is deleted", || server.ask("DBSIZE") == ":0").await;
    }
}

/// A client that is gone sends its pending deletes as long as their keys may exist.
#[tokio::test]
async fn forced_release_of_a_key_without_ttl_survives_a_broken_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    assert_eq!(server.ask("SET lock:job theirs"), "+OK");
    assert!(redlock.lock("job").inspect().await.unwrap().held);
    // The server reads the delete only after the break.
    configure(&server, NO_DELETES);
    redlock.force_release("job").await.unwrap_err();
    proxy.refuse(true);
    drop(redlock);
    configure(&server, DELETES);
    proxy.refuse(false);
    eventually("the key is deleted", || server.ask("DBSIZE") == ":0").await;
}

#[tokio::test]
async fn retries_a_release_that_met_a_busy_script() {
    let server = Server::with(&["--lua-time-limit", "1"]);
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

/// A result of 0 would mean that no key is left.
#[tokio::test]
async fn shutdown_reports_deletes_that_are_still_refused() {
    let servers = servers(3);
    for nodes in [&servers[..1], &servers[..]] {
        let redlock = client(nodes);
        let lease = redlock.lock("job").ttl(millis(600_000)).acquire().await.unwrap();
        eventually("on all nodes", || nodes.iter().all(|node| node.ask("EXISTS lock:job") == ":1"))
            .await;
        // All but one of three refuse.
        let refusing = &nodes[..nodes.len().div_ceil(2)];
        refusing.iter().for_each(|node| configure(node, NO_DELETES));
        drop(lease);
        let error = redlock.shutdown(millis(0)).await.unwrap_err();
        assert_eq!((error.kind(), error.resource()), (ErrorKind::Unavailable, None), "{error}");
        for (report, node) in error.nodes().iter().zip(nodes) {
            let refused = refusing.iter().any(|other| std::ptr::eq(other, node));
            assert_eq!(report.state == NodeState::Fault, refused, "{error}");
        }
        nodes.iter().for_each(|node| configure(node, DELETES));
        eventually("deleted", || nodes.iter().all(|node| node.ask("DBSIZE") == ":0")).await;
    }
}

#[tokio::test]
async fn shutdown_does_not_report_refused_deletes_of_a_minority() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").acquire().await.unwrap();
    eventually("on all nodes", || nodes.iter().all(|node| node.ask("EXISTS lock:job") == ":1"))
        .await;
    configure(&nodes[0], NO_DELETES);
    drop(lease);
    assert_eq!(redlock.shutdown(millis(0)).await.unwrap(), 0);
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
