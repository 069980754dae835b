//! Labels of holders: the value of a key, what other clients show, and values of other programs.

use std::time::Duration;

use redlock::{Error, ErrorKind, Lock, NodeState, Redlock};
use serde::Deserialize;

use crate::support::{Server, Silent, builder, client, millis, servers};
use crate::vectors::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    valid: Vec<String>,
    invalid: Vec<String>,
    error: Vec<String>,
    foreign: Vec<String>,
}

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
async fn value_is_the_token_with_the_label() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    for label in read::<Labels>("labels").valid {
        let lease = labelled(&one, &label).acquire().await.unwrap();
        let (digits, written) = lease.token().split_once(':').unwrap();
        assert_eq!((digits.len(), written), (32, &*label));
        assert_eq!(server.ask("GET lock:job"), lease.token());
        let error = refused(&two).await;
        assert_eq!(error.holder(), Some(&*label));
        assert!(error.to_string().contains(&format!("already held by {label}, and ")), "{error}");
        assert!(!error.to_string().contains(digits), "{error}");
        let found = two.lock("job").inspect().await.unwrap();
        assert_eq!((found.held, found.label.as_deref()), (true, Some(&*label)));
        assert_eq!(found.nodes[0].label.as_deref(), Some(&*label));
        assert_eq!(found.nodes[0].token.as_deref(), Some(&digits[..8]));
        lease.extend(TTL * 2).await.unwrap();
        lease.release().await.unwrap();
        assert_eq!(server.ask("EXISTS lock:job"), ":0");
    }
}

#[tokio::test]
async fn invalid_label_is_refused_before_anything_is_sent() {
    let silent = Silent::listen();
    let Labels { invalid, error: words, .. } = read("labels");
    let redlock = builder([silent.url()]).build().unwrap();
    for label in invalid {
        let of_lock = redlock.lock("job").label(&*label).acquire().await.unwrap_err();
        let of_client = builder([silent.url()]).label(&*label).build().err().unwrap();
        for error in [of_lock, of_client] {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }
    assert!(!silent.called(), "something was sent");
}

#[tokio::test]
async fn label_of_the_lock_overrides_that_of_the_client() {
    let redlock = Redlock::builder(["memory://"]).label("client").build().unwrap();
    for (lock, label) in [
        (redlock.lock("job"), "client"),
        (redlock.lock("job").label("lock"), "lock"),
        (redlock.lock("job").label_host(), &*format!("-{}", std::process::id())),
    ] {
        let lease = lock.acquire().await.unwrap();
        assert!(lease.token().ends_with(label), "{}", lease.token());
        assert!(refused(&redlock).await.holder().unwrap().ends_with(label));
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn own_lease_is_named_with_its_age() {
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    let _lease = labelled(&redlock, "web-3").acquire().await.unwrap();
    let text = refused(&redlock).await.to_string();
    let (_, after) = text.split_once("already held by web-3, which acquired it ").expect(&text);
    assert!(after.split_once(" s ago, and expires in ").is_some(), "{text}");
    let _plain = redlock.lock("plain").acquire().await.unwrap();
    let text = redlock.lock("plain").wait(Duration::ZERO).acquire().await.unwrap_err().to_string();
    assert!(text.contains("it is already held, and expires in "), "{text}");
}

/// The other client may even use the same label.
#[tokio::test]
async fn age_of_an_own_lease_is_not_that_of_another_holder() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let _own = labelled(&one, "web-4").acquire().await.unwrap();
    for label in ["web-3", "web-4"] {
        let other = two.lock("other").ttl(TTL * 2).label(label).acquire().await.unwrap();
        let both = one.lock(["job", "other"]).wait(Duration::ZERO);
        let error = both.acquire().await.unwrap_err();
        assert_eq!(error.holder(), Some(label), "{error}");
        let text = format!("already held by {label}, and expires in ");
        assert!(error.to_string().contains(&text), "{error}");
        other.release().await.unwrap();
    }
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
async fn foreign_value_is_never_shown() {
    let server = Server::start();
    let redlock = client([&server]);
    let long = format!("{{digits}}:forged{}", "x".repeat(10_000));
    for value in read::<Labels>("labels").foreign.into_iter().chain([long]) {
        let value = value.replace("{digits}", DIGITS);
        set(&server, &value);
        let error = refused(&redlock).await;
        let text = format!("{error} {error:?}");
        assert_eq!(error.holder(), None, "{value:?}");
        assert!(text.contains("already held, and expires in "), "{text}");
        assert!(!text.contains("forged") && !text.contains(char::is_control), "{text:?}");
        assert!(redlock.lock("job").try_acquire().await.unwrap().is_none());
        let found = redlock.lock("job").inspect().await.unwrap();
        assert_eq!((found.held, found.label.as_deref()), (true, None), "{value:?}");
        assert_eq!(
            (found.nodes[0].state, found.nodes[0].label.as_deref()),
            (NodeState::Held, None)
        );
    }
}

#[tokio::test]
async fn force_release_deletes_labelled_and_kept_values() {
    let server = Server::start();
    let redlock = client([&server]);
    let longest = "x".repeat(48);
    for kept in [false, true] {
        let lock = labelled(&redlock, &longest).min_hold(TTL / 2);
        let lease = lock.acquire().await.unwrap();
        let token = lease.token().to_owned();
        if kept {
            lease.release().await.unwrap();
            assert_eq!(server.ask("GET lock:job"), format!("kept:{token}"));
            let error = refused(&redlock).await;
            assert!(error.to_string().contains("it was released"), "{error}");
            assert_eq!(error.holder(), None);
            let found = redlock.lock("job").inspect().await.unwrap();
            assert_eq!((found.held, found.label), (false, None));
            assert_eq!(found.nodes[0].label.as_deref(), Some(&*longest), "the previous owner");
        } else {
            assert!(lease.detach());
        }
        assert!(redlock.force_release("job").await.unwrap(), "kept: {kept}");
        assert_eq!(server.ask("EXISTS lock:job"), ":0");
    }
}

#[tokio::test]
async fn attach_needs_the_whole_value() {
    let nodes = servers(3);
    let (one, two) = (client(&nodes), client(&nodes));
    let lease = labelled(&one, "web-3").acquire().await.unwrap();
    let token = lease.token().to_owned();
    for wrong in [&token[..32], &token.replace("web-3", "web-4"), &format!("{token}x")] {
        let error = two.lock("job").attach(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{wrong}");
    }
    // The attached lease keeps the value, whatever the label of its lock is.
    let theirs = labelled(&two, "web-4").attach(&token).await.unwrap();
    assert!(lease.detach());
    assert_eq!(theirs.token(), token);
    assert_eq!(refused(&one).await.holder(), Some("web-3"));
    theirs.release().await.unwrap();
    assert!(one.lock("job").try_acquire().await.unwrap().is_some());
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
