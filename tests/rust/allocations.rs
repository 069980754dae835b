//! Memory costs of an acquire and a release: allocations, and the size of the future.
//!
//! This is a separate test program because it counts every thread. `ALLOCATIONS=1` lists the call sites, most frequent
//! first.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use redlock::Lock;
use support::{Server, client};

/// Number of acquires and releases in each part, one after the other.
const TURNS: usize = 100;
const PARTS: usize = 5;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static TRACING: AtomicBool = AtomicBool::new(false);
static CALL_SITES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// A backtrace allocates too.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it forwards to the system's allocator and only counts in addition.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller upholds the same contract.
        unsafe { System.realloc(place, layout, size) }
    }
}

fn count_allocation() {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if TRACING.load(Ordering::Relaxed) && !INSIDE.replace(true) {
        let trace = Backtrace::force_capture().to_string();
        let ours = trace.lines().filter(|line| line.contains("redlock") || line.contains("redis"));
        let place: Vec<_> = ours.filter(|line| !line.contains("allocations")).take(8).collect();
        CALL_SITES.lock().unwrap().push(place.join("\n"));
        INSIDE.set(false);
    }
}

async fn turns<L: Borrow<Lock>>(lock: &impl Fn() -> L, count: usize) {
    for _ in 0..count {
        lock().borrow().acquire().await.unwrap().release().await.unwrap();
    }
}

/// How many allocations one acquire and its release make, in all threads together.
async fn allocations<L: Borrow<Lock>>(lock: impl Fn() -> L) -> usize {
    // Connects, and fills the caches that keep their memory.
    turns(&lock, 100).await;
    let mut each = usize::MAX;
    // The minimum of several parts, because threads that run once a second allocate in some of them.
    for _ in 0..PARTS {
        let before = COUNT.load(Ordering::Relaxed);
        turns(&lock, TURNS).await;
        each = each.min((COUNT.load(Ordering::Relaxed) - before).div_ceil(TURNS));
    }
    if std::env::var_os("ALLOCATIONS").is_some() {
        TRACING.store(true, Ordering::Relaxed);
        turns(&lock, 10).await;
        TRACING.store(false, Ordering::Relaxed);
        let mut places: HashMap<String, usize> = HashMap::new();
        CALL_SITES
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|place| *places.entry(place).or_default() += 1);
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|(_, times)| usize::MAX - times);
        places.iter().for_each(|(place, times)| println!("{times} in 10 turns:\n{place}\n"));
        println!("{each} allocations each");
    }
    each
}

/// One test at a time. The allocations of another test, including those of a panic, would be counted too.
static SERIAL: Mutex<()> = Mutex::new(());

#[tokio::test]
#[allow(clippy::await_holding_lock, reason = "each test has a separate runtime")]
async fn acquire_and_release_allocate_little() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start();
    let redlock = client([&server]);
    let lock = redlock.lock("allocations");
    let kept = allocations(|| &lock).await;
    assert!(kept <= 20, "{kept} allocations with a lock that is kept");
    let made = allocations(|| redlock.lock("allocations")).await;
    // A busy machine adds one or two, as another thread drives the connection then.
    assert!(made <= 24, "{made} allocations with a lock made for each");
}

#[test]
fn acquire_future_is_small() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = redlock::Redlock::builder(["memory://"]).build().unwrap().lock("size");
    let size = size_of_val(&lock.acquire());
    assert!(size <= 1152, "{size} bytes");
    assert!(size_of_val(&lock.try_acquire()) <= 1152);
}
