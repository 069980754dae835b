//! A Redis user (ACL) with the minimum rights can use everything. With fewer rights, the client reports immediately
//! what is missing. `RIGHTS` are those of `tests/vectors/rights.txt`, which the documentation lists.

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::{RIGHTS, Server, eventually, millis};

/// Creates a user with only these ACL rules, and a client that logs in as this user.
fn as_user(server: &Server, rights: &str) -> Redlock {
    let set = format!("ACL SETUSER app reset on >s3cret-word {rights}");
    assert_eq!(server.ask(&set), "+OK");
    let url = format!("redis://app:s3cret-word@127.0.0.1:{}", server.port);
    Redlock::builder([url]).build().unwrap()
}

#[tokio::test]
async fn minimum_permissions_suffice() {
    let server = Server::start();
    server.ask("ACL LOG RESET");
    let redlock = as_user(&server, RIGHTS);
    let lock = redlock.lock("job").fencing(true).ttl(millis(600));
    let lease = lock.acquire().await.unwrap();
    let token = lease.fencing_token().unwrap();
    eventually("renewals", || redlock.stats().renewed >= 4).await;
    lease.extend(millis(700)).await.unwrap();
    assert!(lock.inspect().await.unwrap().held && lease.is_held());
    let waiting = tokio::spawn(redlock.lock(["job", "other"]).acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    lease.release().await.unwrap();
    // The user may receive the push of the server, which wakes the waiter.
    let both = tokio::time::timeout(millis(5000), waiting).await.unwrap().unwrap().unwrap();
    assert!(redlock.force_release("other").await.unwrap());
    tokio::time::timeout(millis(5000), both.lost()).await.expect("notified by push");
    assert_eq!(both.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let plain = redlock.lock("plain").acquire().await.unwrap();
    let attached = redlock.lock("plain").attach(plain.token()).await.unwrap();
    attached.detach();
    plain.release().await.unwrap();
    let lease = lock.acquire().await.unwrap();
    assert!(lease.fencing_token().unwrap() > token);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn names_a_missing_permission_at_once() {
    let server = Server::start();
    // Redis 6 can revoke whole commands only.
    let old =
        server.info("server", "redis_version").is_some_and(|version| version.starts_with("6."));
    for (missing, named) in [
        ("-get", "GET"),
        ("-set", "SET"),
        ("-del", "DEL"),
        ("-pttl", "PTTL"),
        ("-pexpire", "PEXPIRE"),
        ("-evalsha", "EVALSHA"),
        if old { ("-script", "script") } else { ("-script|load", "script|load") },
    ] {
        let redlock = as_user(&server, &format!("{RIGHTS} {missing}"));
        let error = redlock.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{missing}");
        let cause = error.nodes()[0].error.clone().unwrap();
        assert!(cause.contains("may not run") || cause.contains("NOPERM"), "{missing}: {cause}");
        assert!(cause.contains(named), "{missing}: {cause}");
        assert_eq!(server.ask("DBSIZE"), ":0", "{missing}");
    }
}

#[tokio::test]
async fn names_a_feature_permission_when_it_is_used() {
    let server = Server::start();
    let redlock = as_user(&server, &format!("{RIGHTS} -time"));
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    let fenced = redlock.lock("job").fencing(true).wait(Duration::ZERO);
    let error = fenced.acquire().await.unwrap_err().to_string();
    assert!(error.contains("TIME for fencing, or SCAN for a list)"), "{error}");
    let redlock = as_user(&server, &format!("{RIGHTS} -zadd"));
    redlock.rwlock("config").write().acquire().await.unwrap().release().await.unwrap();
    let reader = redlock.rwlock("config").read().wait(Duration::ZERO);
    let error = reader.acquire().await.unwrap_err().to_string();
    assert!(error.contains("for readers also TIME, ZADD, ZREM"), "{error}");
    assert_eq!(server.ask("DBSIZE"), ":0");
    // A user with rights for other keys only.
    let elsewhere = as_user(&server, &RIGHTS.replace("lock:", "other:"));
    let error = elsewhere.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(error.to_string().contains("key"), "{error}");
}
