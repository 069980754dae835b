//! Labels of holders: the value of a key, what other clients show, and values of other programs.

use std::time::Duration;

use redlock::{Error, ErrorKind, Lock, Redlock};

use crate::support::{Server, builder, client, millis, servers};

const DIGITS: &str = "0123456789abcdef0123456789abcdef";

const TTL: Duration = Duration::from_secs(30);

fn labelled(redlock: &Redlock, label: &str) -> Lock {
    redlock.lock("job").ttl(TTL).label(label)
}

/// The error of an acquire that a holder refuses.
async fn refused(redlock: &Redlock) -> Error {
    let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    error
}

/// Sets a key to any bytes. The test server's connection sends lines.
fn set(server: &Server, value: impl AsRef<[u8]>) {
    let escaped =
        value.as_ref().iter().map(|byte| format!("\\x{byte:02x}")).collect::<Vec<_>>().concat();
    server.ask(&format!("SET lock:job \"{escaped}\" PX 60000"));
}

#[tokio::test]
async fn waiting_client_names_the_holder_and_gets_the_lock() {
    let nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    let lease = labelled(&one, "web-3").acquire().await.unwrap();
    let error = two.lock("job").wait(millis(2000)).acquire().await.unwrap_err();
    assert_eq!(error.holder(), Some("web-3"), "{error}");
    let waits = tokio::spawn(labelled(&two, "web-4").acquire());
    lease.release().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    assert_eq!(refused(&one).await.holder(), Some("web-4"));
    next.release().await.unwrap();
}

#[tokio::test]
async fn each_node_reports_its_holder() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    for (labels, holder) in [
        ([":a", ":b", ":c"], [Some("a"), Some("b"), Some("c")]),
        (["", ":b", ""], [None, Some("b"), None]),
    ] {
        for (at, (node, label)) in nodes.iter().zip(labels).enumerate() {
            set(node, format!("{at}{}{label}", &DIGITS[1..]));
        }
        let found = redlock.lock("job").inspect().await.unwrap();
        let votes: Vec<_> = found.nodes.iter().map(|node| node.label.as_deref()).collect();
        assert_eq!((found.held, found.label.as_deref(), &votes[..]), (false, None, &holder[..]));
    }
    for (label, holder) in [(":b", Some("b")), ("", None)] {
        nodes.iter().for_each(|node| set(node, format!("{DIGITS}{label}")));
        assert_eq!(refused(&redlock).await.holder(), holder);
        assert_eq!(redlock.lock("job").inspect().await.unwrap().label.as_deref(), holder);
    }
}

#[tokio::test]
async fn force_release_deletes_only_short_text() {
    let server = Server::start();
    let redlock = client([&server]);
    let [longest, long] = [127, 128].map(|length| "x".repeat(length));
    for value in ["", "forged", "gr\u{f6}\u{df}e", &longest] {
        set(&server, value.as_bytes());
        assert!(redlock.force_release("job").await.unwrap(), "{value:?}");
        assert_eq!(server.ask("EXISTS lock:job"), ":0");
    }
    for value in [&b"\xff"[..], b"forged\xe4", "\u{fffd}".as_bytes(), long.as_bytes()] {
        set(&server, value);
        let error = redlock.force_release("job").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{value:?}: {error}");
        assert_eq!(server.ask("EXISTS lock:job"), ":1", "{value:?}");
    }
}

#[tokio::test]
async fn many_labelled_leases_share_requests() {
    let server = Server::start();
    let redlock = builder([server.url()]).label("web-3").build().unwrap();
    let locks: Vec<_> = (0..50).map(|at| redlock.lock(format!("{at}")).ttl(TTL)).collect();
    let acquires: Vec<_> = locks.iter().map(|lock| tokio::spawn(lock.acquire())).collect();
    let mut releases = Vec::new();
    for acquire in acquires {
        let lease = acquire.await.unwrap().unwrap();
        assert!(lease.token().ends_with(":web-3"));
        releases.push(tokio::spawn(lease.release()));
    }
    for release in releases {
        release.await.unwrap().unwrap();
    }
    assert_eq!(server.ask("DBSIZE"), ":0");
}
