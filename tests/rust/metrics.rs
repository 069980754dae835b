//! A recorder is user code. It receives every metric, and leases stay alive if it blocks or panics.
//!
//! This is a separate test program with one recorder. Its tests take turns and compare with the earlier counts.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

#[cfg(target_os = "linux")]
#[path = "../../core/src/tests/limit.rs"]
mod limit;
mod recorder;
mod support;

use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use recorder::{Behaviour, Turn, block, called, described_names, set_behaviour, threads};
use support::{Server, block_on, client, eventually_blocking, free_port, millis, within};

const GRANTED: &str = "redlock_acquires_total outcome=granted";

#[test]
fn recorder_receives_every_metric_of_the_dashboard() {
    let turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("job").ttl(millis(900));
    let lease = block_on(async {
        assert!(
            lock.try_acquire().await.unwrap().is_some_and(|lease| lease.into_handle().detach())
        );
        redlock.force_release("job").await.unwrap();
        let lease = lock.acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        let error = lock.acquire_within(millis(100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        lease
    });
    let waiter = std::thread::spawn(move || lock.acquire_blocking().unwrap());
    turn.wait_for_growth("redlock_waiting", 1.0);
    turn.wait_for_growth("redlock_held", 1.0);
    turn.wait_for_any_growth("redlock_renewals_total outcome=confirmed");
    lease.release_blocking().unwrap();
    let second = waiter.join().unwrap();
    server.ask("DEL lock:job");
    block_on(second.handle().lost());
    drop(second);
    turn.wait_for_growth("redlock_waiting", 0.0);
    for (name, number) in [
        (GRANTED, 3.0),
        ("redlock_acquires_total outcome=refused", 1.0),
        ("redlock_acquires_total outcome=timeout", 1.0),
        ("redlock_releases_total", 1.0),
        ("redlock_losses_total reason=missing", 1.0),
        ("redlock_held", 0.0),
        ("redlock_wait_duration_seconds outcome=granted count", 3.0),
        ("redlock_wait_duration_seconds outcome=refused count", 1.0),
        ("redlock_wait_duration_seconds outcome=timeout count", 1.0),
        ("redlock_hold_duration_seconds end=released count", 1.0),
        ("redlock_hold_duration_seconds end=lost count", 1.0),
        ("redlock_hold_duration_seconds end=detached count", 1.0),
    ] {
        turn.wait_for_growth(name, number);
    }
    assert!(turn.growth("redlock_wait_duration_seconds outcome=timeout") >= 0.1);
    assert!(turn.growth("redlock_hold_duration_seconds end=released") >= 0.1);
    assert_eq!(described_names().len(), 9, "{:?}", described_names());
}

#[test]
fn counts_of_closed_clients_stay_in_the_totals() {
    let turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    redlock.lock("job").acquire_blocking().unwrap().release_blocking().unwrap();
    server.ask("CLIENT KILL TYPE normal SKIPME yes");
    // An idle client connects again with its next command.
    eventually_blocking("another connection", || {
        block_on(redlock.lock("job").inspect()).ok();
        turn.growth("redlock_reconnects_total") > 0.0
    });
    let reconnects = turn.growth("redlock_reconnects_total");
    let away = Redlock::builder([format!("redis://127.0.0.1:{}", free_port())]).build().unwrap();
    block_on(away.lock("job").acquire_within(Duration::ZERO)).unwrap_err();
    turn.wait_for_growth("redlock_wait_duration_seconds outcome=unavailable count", 1.0);
    redlock.close();
    drop((away, redlock));
    let other = Redlock::builder(["memory://"]).build().unwrap();
    other.lock("job").acquire_blocking().unwrap().release_blocking().unwrap();
    turn.wait_for_growth(GRANTED, 2.0);
    turn.wait_for_growth("redlock_acquires_total outcome=unavailable", 1.0);
    turn.wait_for_growth("redlock_releases_total", 2.0);
    assert!(turn.growth("redlock_reconnects_total") >= reconnects);
}

#[test]
fn blocking_recorder_delays_nothing_and_misses_no_count() {
    let turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    let kept = block_on(redlock.lock("kept").ttl(millis(2000)).acquire()).unwrap().into_handle();
    block();
    let work = redlock.clone();
    within(millis(50_000), move || {
        let before = work.stats().renewed;
        eventually_blocking("renewals", || work.stats().renewed >= before + 2);
        assert!(kept.is_held(), "{:?}", kept.lost_reason());
        let memory = Redlock::builder(["memory://"]).build().unwrap();
        block_on(async {
            // More than the queue can hold.
            for _ in 0..5000 {
                memory.lock("next").acquire().await.unwrap().release().await.unwrap();
            }
            kept.extend(millis(2500)).await.unwrap();
            kept.release().await.unwrap();
        });
    });
    set_behaviour(Behaviour::Records);
    turn.wait_for_growth(GRANTED, 5001.0);
    // The queue is full of durations, which the next test must not receive. The last entry arrives last.
    let mut at = 0;
    eventually_blocking("a duration", || {
        at += 1;
        let last = redlock.lock(format!("last-{at}")).acquire_blocking().unwrap();
        assert!(last.into_handle().detach());
        turn.growth("redlock_hold_duration_seconds end=detached count") > 0.0
    });
}

#[test]
fn panicking_recorder_ends_no_lease_and_gets_counts_later() {
    let turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    set_behaviour(Behaviour::Panics);
    let kept = redlock.lock("kept").ttl(millis(600)).acquire_blocking().unwrap();
    called(30);
    assert!(kept.is_held(), "{:?}", kept.lost_reason());
    set_behaviour(Behaviour::Records);
    // It was granted while the recorder received nothing.
    turn.wait_for_growth("redlock_held", 1.0);
    turn.wait_for_growth(GRANTED, 1.0);
    kept.release_blocking().unwrap();
    turn.wait_for_growth("redlock_held", 0.0);
}

#[test]
fn recorder_has_a_separate_thread() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    let held = redlock.lock("job").acquire_blocking().unwrap();
    called(40);
    drop(held);
    assert_eq!(threads(), ["redlock-metrics"]);
}

/// Waking it for each duration would add four thread switches to an acquire and its release.
#[cfg(target_os = "linux")]
#[test]
fn thread_is_not_woken_for_each_duration() {
    let _turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("job");
    lock.acquire_blocking().unwrap().release_blocking().unwrap();
    let before = sleeps_of("redlock-metrics");
    for _ in 0..500 {
        lock.acquire_blocking().unwrap().release_blocking().unwrap();
    }
    // It wakes once a second.
    assert!(sleeps_of("redlock-metrics") - before < 100);
}

/// How often the thread of this name in this process has gone to sleep. The name has at most 15 bytes.
#[cfg(target_os = "linux")]
fn sleeps_of(name: &str) -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let is_named = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let thread = threads.into_iter().find(is_named).expect("the thread is running");
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
