//! Renewals and releases of many leases in one script, and attempts with one read. A bad or missing lease costs the
//! others nothing.

use std::time::Duration;

use futures_util::future::join_all;
use redlock::{Lease, Lock, LossReason, Redlock};

use crate::support::batch::{
    LEASES, TTL, acquire_many, calls_of, client_without_pushes, locks_of, max_commands,
    release_many,
};
use crate::support::{RIGHTS, Server, eventually, millis};

#[tokio::test]
async fn renews_concurrent_leases_in_one_script() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    let leases = acquire_many(&redlock, LEASES).await;
    let before = calls_of(&server, "evalsha");
    eventually("renewals", || redlock.stats().renewed >= 4 * LEASES as u64).await;
    assert!(leases.iter().all(|lease| lease.is_held()));
    let (scripts, renewed) = (calls_of(&server, "evalsha") - before, calls_of(&server, "pexpire"));
    // Each was renewed about five times. On a slow machine they may split into several scripts.
    assert!(renewed >= 3 * LEASES, "{renewed}");
    assert!(scripts < max_commands(&server, renewed), "{scripts} scripts for {renewed} renewals");
    join_all(leases.into_iter().map(Lease::release)).await.into_iter().for_each(Result::unwrap);
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn lost_lease_does_not_affect_the_batch() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    let leases = acquire_many(&redlock, LEASES).await;
    server.ask("DEL lock:job-3");
    server.ask("SET lock:job-5 theirs XX");
    server.ask("PERSIST lock:job-7");
    server.ask("DEL lock:job-9");
    server.ask("RPUSH lock:job-9 theirs");
    server.ask("PEXPIRE lock:job-11 60000");
    let lost = [
        (3, Some(LossReason::Missing)),
        (5, Some(LossReason::Taken)),
        (9, Some(LossReason::Taken)),
    ];
    for (at, reason) in lost {
        let notified =
            tokio::time::timeout(millis(3 * TTL), leases[at].lost()).await.expect("notified");
        assert_eq!(notified.loss_reason(), reason, "{at}");
    }
    let before = redlock.stats().renewed;
    eventually("renewals", || redlock.stats().renewed >= before + 3 * LEASES as u64).await;
    for (at, lease) in leases.iter().enumerate() {
        assert_eq!(lease.is_held(), lost.iter().all(|(gone, _)| *gone != at), "{at}");
    }
    let left = |key: &str| server.ask(&format!("PTTL lock:job-{key}"))[1..].parse::<i64>().unwrap();
    // A key without a TTL has one again, and a key with a longer TTL is not shortened.
    assert!((1..=1500).contains(&left("7")), "{}", left("7"));
    assert!(left("11") > 50_000, "{}", left("11"));
    assert_eq!(server.ask("GET lock:job-5"), "theirs");
}

/// A client whose user may not run the commands of batches.
fn client_without_batches(server: &Server) -> Redlock {
    let set = format!("ACL SETUSER app reset on >s3cret-word {RIGHTS} -mget -exists -getrange");
    assert_eq!(server.ask(&set), "+OK");
    let url = format!("redis://app:s3cret-word@127.0.0.1:{}", server.port);
    Redlock::builder([url]).restart_guard(Duration::ZERO).build().unwrap()
}

#[tokio::test]
async fn renews_one_by_one_without_permission() {
    let server = Server::start();
    let redlock = client_without_batches(&server);
    let leases = acquire_many(&redlock, LEASES).await;
    eventually("renewals", || redlock.stats().renewed >= 4 * LEASES as u64).await;
    assert!(leases.iter().all(|lease| lease.is_held()));
    // The client tried it at connect.
    let stats = server.info("commandstats", "cmdstat_mget").unwrap_or_default();
    assert!(stats.starts_with("calls=0,") && stats.contains("rejected_calls=1,"), "{stats}");
}

#[tokio::test]
async fn releases_many_leases_in_few_scripts() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    release_many(acquire_many(&redlock, LEASES).await).await.into_iter().for_each(Result::unwrap);
    let before = calls_of(&server, "evalsha");
    release_many(acquire_many(&redlock, LEASES).await).await.into_iter().for_each(Result::unwrap);
    let scripts = calls_of(&server, "evalsha") - before;
    assert!(scripts < LEASES / 4, "{scripts} scripts for {LEASES} releases");
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn batch_release_reports_lost_leases() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    let leases = acquire_many(&redlock, LEASES).await;
    server.ask("DEL lock:job-3");
    server.ask("SET lock:job-5 theirs XX");
    server.ask("DEL lock:job-9");
    server.ask("RPUSH lock:job-9 theirs");
    for (at, released) in release_many(leases).await.into_iter().enumerate() {
        match (at, released) {
            (3 | 5 | 9, Err(error)) => assert_eq!(error.kind(), redlock::ErrorKind::Lost, "{at}"),
            (3 | 5 | 9, Ok(())) => panic!("{at} was not ours any more"),
            (_, released) => released.unwrap(),
        }
    }
    assert_eq!(server.ask("DBSIZE"), ":2");
    assert_eq!(server.ask("GET lock:job-5"), "theirs");
}

#[tokio::test]
async fn batch_release_survives_a_script_flush() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    for _ in 0..3 {
        let leases = acquire_many(&redlock, LEASES).await;
        server.ask("SCRIPT FLUSH");
        release_many(leases).await.into_iter().for_each(Result::unwrap);
        assert_eq!(server.ask("DBSIZE"), ":0");
    }
}

#[tokio::test]
async fn concurrent_attempts_share_one_read() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    // A value that was never a lock may be foreign data, so the client reads little of it.
    release_many(acquire_many(&redlock, LEASES).await).await.into_iter().for_each(Result::unwrap);
    let (before, releases) = (calls_of(&server, "getrange"), calls_of(&server, "mget"));
    assert!(before > 0);
    let leases = acquire_many(&redlock, LEASES).await;
    let alone = calls_of(&server, "getrange") - before;
    let together = calls_of(&server, "mget") - releases;
    assert!(alone < before / 2 && together > 0, "{alone} for one, {together} for many");
    release_many(leases).await.into_iter().for_each(Result::unwrap);
}

#[tokio::test]
async fn batch_refuses_only_taken_keys() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    release_many(acquire_many(&redlock, LEASES).await).await.into_iter().for_each(Result::unwrap);
    server.ask("SET lock:job-3 theirs");
    server.ask("SET lock:job-5 theirs PX 60000");
    server.ask("RPUSH lock:job-9 theirs");
    let locks = locks_of(&redlock, &[3, 5, 9]);
    let mut leases = Vec::new();
    for (at, acquired) in join_all(locks.iter().map(Lock::acquire)).await.into_iter().enumerate() {
        match acquired {
            Ok(lease) if ![3, 5, 9].contains(&at) => leases.push(lease),
            Err(error) if at < 9 => assert_eq!(error.kind(), redlock::ErrorKind::Timeout, "{at}"),
            Err(error) => assert_eq!(at, 9, "{error}"),
            Ok(_) => panic!("{at} is held by another client"),
        }
    }
    assert!(leases.iter().all(|lease| lease.is_held()));
    assert_eq!(server.ask("DBSIZE"), format!(":{LEASES}"));
    release_many(leases).await.into_iter().for_each(Result::unwrap);
    assert_eq!(server.ask("DBSIZE"), ":3");
}

#[tokio::test]
async fn acquires_one_by_one_without_permission() {
    let server = Server::start();
    let redlock = client_without_batches(&server);
    for _ in 0..3 {
        let leases = acquire_many(&redlock, LEASES).await;
        assert!(leases.iter().all(|lease| lease.is_held()));
        release_many(leases).await.into_iter().for_each(Result::unwrap);
        assert_eq!(server.ask("DBSIZE"), ":0");
    }
}

/// Each lease then has a separate request, for thousands of leases as for one.
#[tokio::test]
async fn thousands_of_losses_are_reported_at_once() {
    const MANY: usize = 30_000;
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    let lock = |at: usize| redlock.lock(format!("job-{at}")).ttl(millis(60_000));
    let one = |at: usize| lock(at).node_timeout(millis(4000)).acquire();
    let leases = join_all((0..MANY).map(one)).await.into_iter().map(Result::unwrap).collect();
    let lost: Vec<_> = (0..MANY).step_by(2).map(|at| format!("lock:job-{at}")).collect();
    for some in lost.chunks(1000) {
        server.ask(&format!("DEL {}", some.join(" ")));
    }
    for (at, released) in release_many(leases).await.into_iter().enumerate() {
        match released {
            Err(error) => {
                assert_eq!((error.kind(), at % 2), (redlock::ErrorKind::Lost, 0), "{error}");
            }
            Ok(()) => assert_eq!(at % 2, 1),
        }
    }
    assert_eq!(server.ask("DBSIZE"), ":0");
}
