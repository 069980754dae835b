//! Cases where redlock is better than rslock.

use std::time::Duration;

use redlock::{Error, ErrorKind, LossReason, NodeState, Redlock};
use tokio::sync::oneshot;

use super::{all_gone, all_have, on, three};
use crate::support::{Server, eventually, free_port, millis};

const TEN_SECONDS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn lock_direct_unlock_fails() {
    let node = Server::start();
    let client = on([&node]);
    let lease = client.lock("lock:gone").acquire().await.unwrap();
    assert_eq!(node.ask("DEL lock:gone"), ":1");
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let never = client.lock("lock:never").attach("0123456789abcdef").await;
    assert_eq!(never.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn release_preserves_a_different_owner() {
    let (nodes, client) = three();
    let lease = client.lock("lock:owner").ttl(TEN_SECONDS).acquire().await.unwrap();
    all_have(&nodes, "lock:owner", lease.token());
    nodes.iter().for_each(|node| assert_eq!(node.ask("SET lock:owner new PX 10000"), "+OK"));
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
    // A delete that was sent after all arrives before anything that is sent later.
    let after = client.lock("lock:after").ttl(TEN_SECONDS).acquire().await.unwrap();
    all_have(&nodes, "lock:after", after.token());
    nodes.iter().for_each(|node| assert_eq!(node.ask("GET lock:owner"), "new"));
}

#[tokio::test]
async fn cancelling_using_leaves_key() {
    let (nodes, client) = three();
    let (ready, entered) = oneshot::channel();
    let using = client.lock("lock:cancelled").ttl(TEN_SECONDS * 60).using(async move |_| {
        ready.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let mut using = Box::pin(using);
    tokio::select! {
        _ = &mut using => panic!("its body does not end"),
        entered = entered => entered.unwrap(),
    }
    assert!(on(&nodes).lock("lock:cancelled").try_acquire().await.unwrap().is_none());
    drop(using);
    all_gone(&nodes, "lock:cancelled");
}

#[tokio::test]
async fn dropping_guard_leaves_key_until_ttl() {
    let (nodes, client) = three();
    drop(client.lock("lock:dropped").ttl(TEN_SECONDS * 60).acquire().await.unwrap());
    all_gone(&nodes, "lock:dropped");

    // A caller that wants to keep the key requests it explicitly.
    let lease = client.lock("lock:left").ttl(millis(2000)).acquire().await.unwrap();
    all_have(&nodes, "lock:left", lease.token());
    assert!(lease.detach());
    nodes.iter().for_each(|node| assert_eq!(node.ask("GET lock:left"), lease.token()));
    all_gone(&nodes, "lock:left");
}

#[tokio::test]
async fn lock_with_short_ttl_and_retries() {
    let (nodes, client) = three();
    let error = client.lock("lock:short").ttl(millis(1)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("ttl"), "{error}");
    // rslock sends the request, which then has no effect.
    let asked = |node: &Server| node.info("commandstats", "cmdstat_set");
    assert!(nodes.iter().all(|node| asked(node).is_none()));
}

/// A key that is changed by hand on one server of three is not lost. If it is changed on all of them, the holder is
/// notified.
async fn changed(by: &str, reason: LossReason) {
    let (nodes, client) = three();
    let lock = client.lock("lock:job").ttl(TEN_SECONDS);
    let lease = lock.acquire().await.unwrap();
    all_have(&nodes, "lock:job", lease.token());
    nodes[0].ask(by);
    if reason == LossReason::Missing {
        // The client has written the key again because a quorum still had it.
        all_have(&nodes, "lock:job", lease.token());
    }
    // Time enough for a notification, if it were lost.
    let notified = tokio::time::timeout(millis(300), lease.lost()).await;
    assert!(notified.is_err() && lease.is_held() && lock.inspect().await.unwrap().held);
    assert!(on(&nodes).lock("lock:job").try_acquire().await.unwrap().is_none());

    // Repeated, because on a busy machine the first server may be repaired before the next one is changed.
    eventually("it is notified", || {
        nodes.iter().for_each(|node| _ = node.ask(by));
        !lease.is_held()
    })
    .await;
    // A check during the changes still finds the key on some servers.
    let found = lease.lost_reason().unwrap();
    assert!([reason, LossReason::Quorum].contains(&found), "{found:?}");
}

#[tokio::test]
async fn is_freed_when_key_missing_in_redis() {
    changed("DEL lock:job", LossReason::Missing).await;
}

#[tokio::test]
async fn redis_key_not_found() {
    changed("UNLINK lock:job", LossReason::Missing).await;
}

#[tokio::test]
async fn redis_key_mismatch() {
    changed("SET lock:job other", LossReason::Taken).await;
}

fn invalid(built: Result<Redlock, Error>) {
    assert_eq!(built.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn redis_connection_failed() {
    invalid(Redlock::builder(Vec::<String>::new()).build());
    let urls = [(); 3].map(|()| format!("redis://127.0.0.1:{}", free_port()));
    let client = Redlock::builder(urls).build().unwrap();
    let error = client.lock("lock:job").wait(millis(300)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // Two errors are enough to know that no quorum is possible.
    let failed = error.nodes().iter().filter(|node| node.state == NodeState::Fault);
    assert!(error.nodes().len() == 3 && failed.count() >= 2, "{error}");
}

#[tokio::test]
async fn is_freed_handles_redis_connection_failure() {
    invalid(Redlock::builder(Vec::<String>::new()).build());
    let (mut nodes, client) = three();
    let lock = client.lock("lock:job").ttl(millis(1000));
    let lease = lock.acquire().await.unwrap();
    nodes.iter_mut().for_each(Server::kill);
    // No node can reply, and the holder knows the end of its lease without a notification.
    assert_eq!(lock.inspect().await.unwrap_err().kind(), ErrorKind::Unavailable);
    tokio::time::timeout(TEN_SECONDS, lease.lost()).await.expect("it is notified");
    assert!(!lease.is_held());
}
