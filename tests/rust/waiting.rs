//! Waiters: which callers they delay, and what delays them.

use std::time::Duration;

use redlock::ErrorKind;

use crate::support::{client, millis, servers};

#[tokio::test]
async fn wrong_key_type_on_a_minority_is_not_unsupported() {
    let nodes = servers(3);
    nodes[0].ask("LPUSH lock:job data");
    let (one, two) = (client(&nodes), client(&nodes));
    let lease = one.lock("job").acquire().await.unwrap();
    let timeout = two.lock("job").wait(millis(1000)).acquire().await.unwrap_err();
    assert_eq!(timeout.kind(), ErrorKind::Timeout, "{timeout}");
    lease.release().await.unwrap();
    nodes[1].ask("LPUSH lock:job data");
    let unsupported = one.lock("job").wait(Duration::from_secs(5)).acquire().await.unwrap_err();
    assert_eq!(unsupported.kind(), ErrorKind::Unsupported, "{unsupported}");
}

#[tokio::test]
async fn inspect_without_a_quorum_is_an_error() {
    let mut nodes = servers(3);
    let redlock = client(&nodes);
    let lease = redlock.lock("job").acquire().await.unwrap();
    nodes[0].kill();
    assert!(redlock.lock("job").inspect().await.unwrap().held);
    nodes[1].kill();
    let error = redlock.lock("job").inspect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.nodes().len(), 3);
    drop(lease);
}
