//! Renewals and releases of many leases in one script, and attempts with one read. A bad or missing lease costs the
//! others nothing.

use std::time::Duration;

use futures_util::future::join_all;
use redlock::{Lease, Lock, Redlock};

use crate::support::batch::{
    LEASES, TTL, acquire_many, calls_of, client_without_pushes, locks_of, max_commands,
    release_many,
};
use crate::support::{Server, millis};

// Slow: the scripts are flushed between renewals for two TTLs.
#[tokio::test]
async fn reloads_lost_scripts() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    let leases = acquire_many(&redlock, LEASES).await;
    for _ in 0..4 {
        server.ask("SCRIPT FLUSH");
        tokio::time::sleep(millis(TTL / 2)).await;
    }
    assert!(leases.iter().all(|lease| lease.is_held()));
}

// Slow: the releases must meet the renewals within milliseconds.
#[tokio::test]
async fn release_during_renewal_leaves_no_key() {
    let server = Server::start();
    let redlock = client_without_pushes(&server);
    for round in 0..6 {
        let leases = acquire_many(&redlock, LEASES).await;
        // About the time of the first renewal.
        tokio::time::sleep(millis(TTL / 3 - 6 + 2 * round)).await;
        let released = join_all(leases.into_iter().map(Lease::release)).await;
        assert!(released.into_iter().all(|released| released.is_ok()));
        assert_eq!(server.ask("DBSIZE"), ":0");
    }
}

// Slow: the first renewal of a lease of 12 seconds must pass.
#[tokio::test]
async fn batch_renewed_leases_are_still_tracked() {
    let server = Server::start();
    let redlock = Redlock::builder([server.url()]).restart_guard(Duration::ZERO).build().unwrap();
    let one = |at: usize| redlock.lock(format!("job-{at}")).ttl(millis(12_000)).acquire();
    let leases: Vec<_> =
        join_all((0..LEASES).map(one)).await.into_iter().map(Result::unwrap).collect();
    // Renewed after 4 s, and after another 4 s.
    tokio::time::sleep(millis(5000)).await;
    let (scripts, renewed) = (calls_of(&server, "evalsha"), calls_of(&server, "pexpire"));
    assert!(scripts < max_commands(&server, renewed), "{scripts} scripts for {renewed} renewals");
    for at in [0, LEASES / 2, LEASES - 1] {
        server.ask(&format!("DEL lock:job-{at}"));
        tokio::time::timeout(millis(700), leases[at].lost()).await.expect("notified at once");
    }
    assert_eq!(leases.iter().filter(|lease| lease.is_held()).count(), LEASES - 3);
}

/// Acquires all locks but one, several times. The last acquire waits in vain.
async fn all_but_one(redlock: &Redlock) {
    for _ in 0..4 {
        let locks = locks_of(redlock, &[3]);
        let acquired = join_all(locks.iter().map(Lock::acquire)).await;
        let leases: Vec<_> = acquired.into_iter().filter_map(Result::ok).collect();
        assert_eq!(leases.len(), LEASES - 1);
        release_many(leases).await.into_iter().for_each(Result::unwrap);
    }
}

/// Longer than any token, and longer than any reply that a lock can have.
const LENGTHS: [usize; 2] = [5_000, 3 << 20];

// Slow: an acquire waits in vain eight times.
#[tokio::test]
async fn large_foreign_data_is_not_read_in_a_batch() {
    for length in LENGTHS {
        let server = Server::start();
        server.ask(&format!("SETRANGE lock:job-3 {} x", length - 1));
        let redlock = client_without_pushes(&server);
        all_but_one(&redlock).await;
        assert_eq!(redlock.stats().reconnects, 0);
        assert_eq!(server.ask("DBSIZE"), ":1");
    }
}

// Slow: an acquire waits in vain eight times.
#[tokio::test]
async fn large_data_in_place_of_a_lock_is_read_at_most_once() {
    for length in LENGTHS {
        let server = Server::start();
        let redlock = client_without_pushes(&server);
        release_many(acquire_many(&redlock, LEASES).await)
            .await
            .into_iter()
            .for_each(Result::unwrap);
        server.ask(&format!("SETRANGE lock:job-3 {} x", length - 1));
        all_but_one(&redlock).await;
        let (alone, together) = (calls_of(&server, "getrange"), calls_of(&server, "mget"));
        assert!(alone > 2 * LEASES, "{alone} reads for one, {together} for many");
        assert!(redlock.stats().reconnects <= 1, "{}", redlock.stats().reconnects);
        assert_eq!(server.ask("DBSIZE"), ":1");
    }
}
