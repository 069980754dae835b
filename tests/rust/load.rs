//! The load on the server: foreign values of any size, many names, and the data that stays behind.

use std::time::Duration;

use futures_util::future::join_all;
use redlock::ErrorKind;

use crate::support::{Proxy, Server, builder, client, eventually, millis};

#[tokio::test]
async fn large_foreign_value_counts_as_held() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let lease = redlock.lock("other").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    server.ask("SET lock:job foreign-data");
    server.ask("SETRANGE lock:job 3000000 x");
    let lock = redlock.lock("job").wait(millis(300));
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let seen = lock.inspect().await.unwrap();
    assert!(seen.held && seen.nodes[0].token.as_deref() == Some("foreign-"), "{seen:?}");
    assert_eq!(redlock.stats().reconnects, 0);
    lease.release().await.unwrap();
    let error = redlock.force_release("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("not a token"), "{error}");
    server.ask("DEL lock:job");
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn maximum_number_of_names_does_not_block_the_server() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let names: Vec<String> = (0..1000).map(|at| format!("{{t}}{at}")).collect();
    let lock = one.lock(names.clone()).fencing(true).ttl(Duration::from_secs(30));
    let lease = lock.acquire().await.unwrap();
    assert_eq!(server.ask("DBSIZE"), ":2000");
    assert!(two.lock(names.clone()).try_acquire().await.unwrap().is_none());
    lease.extend(Duration::from_secs(60)).await.unwrap();
    let left: i64 = server.ask("PTTL lock:{t}999").trim_start_matches(':').parse().unwrap();
    assert!(left > 50_000, "{left}");
    let lost = lease.lost();
    server.ask("DEL lock:{t}500");
    tokio::time::timeout(millis(3000), lost).await.expect("each key is tracked");
    lease.release().await.unwrap_err();
    // The release of a lost lease also deletes its remaining keys.
    eventually("999 keys are deleted", || server.ask("DBSIZE") == ":1000").await;
    // Each script reads the values of all keys at once. One by one, they would block the server for 100 ms and more.
    for command in ["get", "getrange"] {
        let calls = server.info("commandstats", &format!("cmdstat_{command}"));
        let calls =
            calls.as_deref().and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
        let calls: u32 = calls.map_or(0, |calls| calls.parse().unwrap());
        assert!(calls < 100, "{calls} calls of {command}");
    }
}

#[tokio::test]
async fn names_and_preserves_one_of_many_foreign_keys() {
    let server = Server::start();
    server.ask("HSET lock:b field value");
    let redlock = client([&server]);
    let lock = redlock.lock(["a", "b", "c"]);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let held = redlock.lock("a").acquire().await.unwrap();
    let error = redlock.force_release(["a", "b", "c"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("lock:b: the server replied WRONGTYPE"), "{error}");
    // Nothing is deleted, because not every key can be.
    held.extend(Duration::from_secs(20)).await.unwrap();
    assert_eq!(server.ask("DBSIZE"), ":2");
    assert_eq!(server.ask("HGET lock:b field"), "value");
}

#[tokio::test]
async fn several_names_need_no_extra_permissions() {
    let server = Server::start();
    server.ask("ACL SETUSER app on >pw resetkeys ~lock:* resetchannels -@all +evalsha +script|load +set +get +del +pttl +pexpire +time +client|tracking +info");
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port);
    let redlock = builder([url]).build().unwrap();
    let lease = redlock.lock(["a", "b"]).acquire().await.unwrap();
    lease.extend(Duration::from_secs(20)).await.unwrap();
    lease.release().await.unwrap();
    redlock.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert!(!redlock.force_release("a").await.unwrap());
    assert_eq!(server.ask("DBSIZE"), ":0");
}

fn remembered(server: &Server) -> String {
    server.info("stats", "tracking_total_keys").unwrap()
}

#[tokio::test]
async fn server_tracks_no_key_after_the_end() {
    let server = Server::start();
    let redlock = client([&server]);
    let lock = |at: usize| redlock.lock(format!("job-{at}")).ttl(millis(1000)).renew(false);
    for at in 0..20 {
        assert!(!lock(at).inspect().await.unwrap().held);
    }
    assert_eq!(remembered(&server), "0");
    let leases = join_all((0..20).map(|at| async move { lock(at).acquire().await.unwrap() })).await;
    for lease in leases {
        lease.lost().await;
        lease.release().await.unwrap_err();
    }
    eventually("no name is remembered", || remembered(&server) == "0").await;
}
