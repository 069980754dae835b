//! A lease that is extended.

use redlock::ErrorKind;

use super::{TEN_SECONDS, all_gone, all_have, on, three};
use crate::support::{eventually, millis};

#[tokio::test]
async fn lock_extend_lock() {
    let (nodes, one) = three();
    let lease = one.lock("lock:job").ttl(TEN_SECONDS).renew(false).acquire().await.unwrap();
    let before = lease.remaining();
    lease.extend(TEN_SECONDS * 2).await.unwrap();
    assert!(lease.remaining() > before);
    let error = on(&nodes).lock("lock:job").wait(millis(400)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn lock_extend_lock_releases() {
    let (nodes, one) = three();
    let lease = one.lock("lock:job").ttl(millis(2000)).renew(false).acquire().await.unwrap();
    // A machine that stops for two seconds loses the lease here.
    let extended = lease.extend(millis(2000)).await;
    assert!(extended.is_ok_and(|()| lease.is_held()) || lease.lost_reason().is_some());
    lease.lost().await;
    let _next =
        on(&nodes).lock("lock:job").ttl(TEN_SECONDS).wait(TEN_SECONDS).acquire().await.unwrap();
    assert_eq!(lease.extend(TEN_SECONDS).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn using_renews_and_releases() {
    let (nodes, client) = three();
    let lock = client.lock("lock:renewed").ttl(millis(800));
    let result = lock.using(async |lease| {
        eventually("renewals", || client.stats().renewed >= 4).await;
        all_have(&nodes, "lock:renewed", lease.token());
        42
    });
    assert_eq!(result.await.unwrap(), 42);
    all_gone(&nodes, "lock:renewed");

    // The minimum TTL. A machine that stops for that long loses the lease, and the test tries again.
    let short = client.lock("lock:short").ttl(redlock::MIN_TTL).wait(TEN_SECONDS);
    let mut seven = short.using(async |_| 7).await;
    for _ in 0..50 {
        let Err(error) = &seven else { break };
        assert_eq!(error.kind(), ErrorKind::Lost);
        seven = short.using(async |_| 7).await;
    }
    assert_eq!(seven.unwrap(), 7);
    all_gone(&nodes, "lock:short");
}
