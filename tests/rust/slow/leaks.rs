//! Tens of thousands of calls leave no resource behind, including cancelled, refused and lost ones.
//!
//! Each test runs this test binary in a separate process. The environment makes it run only the cycles.

use std::process::Command;
use std::time::Duration;

use futures_util::poll;
use redlock::Redlock;

use crate::support::{Server, millis};

const ROUNDS: usize = 5000;

const URL: &str = "LEAKS_URL";

async fn cycle(redlock: &Redlock, at: usize) {
    let lock = redlock.lock(format!("job-{}", at % 10)).ttl(millis(5000));
    match at % 20 {
        // Dropped at a different time of its round in each case.
        3 | 8 | 13 | 18 => {
            let mut acquire = Box::pin(lock.acquire());
            for _ in 0..at % 7 {
                if poll!(acquire.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Held by another client, or queued behind it.
        5 => {
            let lease = lock.acquire().await.unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
            lock.clone().wait(Duration::ZERO).acquire().await.unwrap_err();
            let mut waiting = Box::pin(lock.acquire());
            let _ = poll!(waiting.as_mut());
            drop(waiting);
            lease.release().await.unwrap();
        }
        7 => drop(lock.acquire().await.unwrap()),
        9 => {
            let lease = redlock.lock(format!("lost-{at}")).acquire().await.unwrap();
            let lost = lease.lost();
            redlock.force_release(format!("lost-{at}")).await.unwrap();
            lost.await;
        }
        11 => {
            let other = Redlock::builder([std::env::var(URL).unwrap()]).build().unwrap();
            other.lock(format!("other-{at}")).acquire().await.unwrap().release().await.unwrap();
            other.close();
        }
        _ => lock.acquire().await.unwrap().release().await.unwrap(),
    }
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn rss() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The resources of the process: memory, files, threads, leases.
async fn measure(redlock: &Redlock) -> [usize; 4] {
    tokio::time::sleep(millis(500)).await;
    [rss(), count("/proc/self/fd"), count("/proc/self/task"), redlock.leases().len()]
}

async fn bursts(url: &str) {
    let redlock = Redlock::builder([url]).build().unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        for at in 0..ROUNDS {
            cycle(&redlock, at).await;
        }
        seen.push(measure(&redlock).await);
    }
    // A leak shows in every burst, while the allocator's behaviour shows only in some. So the minimum growth counts.
    for (what, most) in [100 * ROUNDS, 0, 0, 0].into_iter().enumerate() {
        let growth = seen.windows(2).map(|pair| pair[1][what].saturating_sub(pair[0][what])).min();
        assert!(growth <= Some(most), "{what}: {seen:?}");
    }
    assert_eq!(seen[3][3], 0, "leases: {seen:?}");
    println!("flat: {seen:?}");
}

// Slow: memory is measured over thousands of acquires, in a separate process.
#[tokio::test]
async fn memory_files_and_threads_do_not_grow() {
    if let Ok(url) = std::env::var(URL) {
        return bursts(&url).await;
    }
    let server = Server::start();
    alone("slow::leaks::memory_files_and_threads_do_not_grow", &server.url());
}

/// Runs a test of this file in a separate process.
fn alone(test: &str, url: &str) {
    let mut this = Command::new(std::env::current_exe().unwrap());
    let run = this.args([test, "--exact", "--nocapture"]).env(URL, url).output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && output.contains("flat: "), "{output}{complained}");
    println!("{output}");
}

/// The exact number of allocated bytes that are not freed.
#[cfg(target_env = "gnu")]
fn allocated() -> usize {
    // SAFETY: it only reads the allocator's own counters.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

#[cfg(target_env = "gnu")]
const COUNT: usize = 20_000;
/// How often thousands of leases are held.
#[cfg(target_env = "gnu")]
const TIMES: usize = 8;

/// Leases of hours, each released immediately. None of their memory stays for the hour. `seen`: the renewal loop ran at
/// every second one. Returns how many bytes more remain after each burst.
#[cfg(target_env = "gnu")]
async fn acquire_long_leases(redlock: &Redlock, seen: bool) -> Vec<usize> {
    let _held = redlock.lock("held").ttl(Duration::from_secs(36_000)).acquire().await.unwrap();
    let mut remaining = Vec::new();
    for _ in 0..4 {
        acquire_burst(redlock, seen).await;
        remaining.push(allocated());
    }
    remaining.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

#[cfg(target_env = "gnu")]
async fn acquire_burst(redlock: &Redlock, seen: bool) {
    let lock = redlock.lock("job").ttl(Duration::from_secs(36_000));
    let other = redlock.lock("other");
    for at in 0..COUNT {
        let lease = lock.acquire().await.unwrap();
        if seen && at % 2 == 0 {
            // A loss wakes the renewal loop.
            let lost = other.acquire().await.unwrap();
            redlock.force_release("other").await.unwrap();
            lost.lost().await;
        }
        lease.release().await.unwrap();
    }
}

/// Holds thousands of long leases at the same time, many times. Returns how many bytes more remain than after the
/// first time.
#[cfg(target_env = "gnu")]
async fn hold_many_long_leases(redlock: &Redlock) -> usize {
    let hour = Duration::from_secs(36_000);
    let acquire = |at: usize| redlock.lock(format!("many-{at}")).ttl(hour).acquire();
    let mut remaining = Vec::new();
    for _ in 0..=TIMES {
        let mut leases = Vec::new();
        for at in 0..COUNT / 2 {
            leases.push(acquire(at).await.unwrap());
        }
        for lease in leases {
            lease.release().await.unwrap();
        }
        // The next acquire removes what the released ones left in the lists.
        acquire(0).await.unwrap().release().await.unwrap();
        remaining.push(allocated());
    }
    remaining[TIMES].saturating_sub(remaining[0])
}

#[cfg(target_env = "gnu")]
// Slow: memory is measured over thousands of acquires, in a separate process.
#[tokio::test]
async fn released_long_leases_leave_no_memory() {
    let Ok(url) = std::env::var(URL) else {
        return alone("slow::leaks::released_long_leases_leave_no_memory", "memory://");
    };
    let client = || Redlock::builder([&url]).build().unwrap();
    let mut grown = Vec::new();
    for seen in [false, true] {
        grown.push(acquire_long_leases(&client(), seen).await);
    }
    // If they were left behind, each would take hundreds of bytes, in every burst. The lists keep the memory of at most
    // some hundred leases, of which each burst may leave more or fewer than the one before.
    let is_flat = |bursts: &Vec<usize>| bursts.iter().min() < Some(&(COUNT * 2));
    assert!(grown.iter().all(is_flat), "{grown:?}");
    let many = hold_many_long_leases(&client()).await;
    // The lists keep up to the size that they had for all of them, once. The leases would add theirs each time.
    assert!(many < TIMES * COUNT / 2 * 100, "{many}");
    println!("flat: {grown:?} {many}");
}
