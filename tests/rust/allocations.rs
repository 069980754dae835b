//! Memory costs of an acquire and a release: allocations, and the size of the future. Also a thread that is suspended
//! in an allocation.
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
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use redlock::testing::{TestClock, TestRedlock};
use redlock::{Lock, Redlock};
use support::{Server, client, eventually_blocking};

/// Number of acquires and releases in each part, one after the other.
const TURNS: usize = 100;
const PARTS: usize = 5;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static TRACING: AtomicBool = AtomicBool::new(false);
/// The minimum size of a block of 32 queued commands.
const LARGE: usize = 4096;
/// The same for the commands of a `memory://` store, which are smaller.
const LARGE_IN_MEMORY: usize = 512;
/// Whether a thread is suspended in an allocation.
static SUSPENDED: Mutex<bool> = Mutex::new(false);
static RESUMED: Condvar = Condvar::new();
static CALL_SITES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// A backtrace allocates too.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static SUSPENDED_AT: Cell<Option<AllocationSite>> = const { Cell::new(None) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it forwards to the system's allocator and only counts in addition.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        suspend(layout.size());
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

/// Suspends this thread if this is the site, as the system may do at any time. The thread holds what the code around it
/// has locked.
fn suspend(bytes: usize) {
    let Ok(Some(mut site)) = SUSPENDED_AT.try_with(Cell::get) else { return };
    if bytes < site.of {
        return;
    }
    site.nth -= 1;
    SUSPENDED_AT.set((site.nth > 0).then_some(site));
    if site.nth == 0 {
        let mut suspended = SUSPENDED.lock().unwrap();
        *suspended = true;
        drop(RESUMED.wait_while(suspended, |suspended| *suspended));
    }
}

/// Where a thread is suspended: in its n-th next allocation of at least this many bytes.
#[derive(Clone, Copy, Debug)]
struct AllocationSite {
    nth: usize,
    of: usize,
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
    assert!(size <= 1280, "{size} bytes");
    assert!(size_of_val(&lock.try_acquire()) <= 1152);
}

/// A thread may be suspended in any allocation of an acquire. The background thread and other clients continue.
#[test]
fn suspended_thread_blocks_no_other_client() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start();
    for in_runtime in [false, true] {
        let shared = client([&server]);
        blocking_pair(&shared, "connected", 20).unwrap();
        let each = (1..).map(|nth| AllocationSite { nth, of: 0 });
        let found = each.take_while(|site| {
            while_suspended(*site, pairs(in_runtime, *site, &shared), || {
                let other = client([&server]);
                // The background thread connects.
                let other = std::thread::spawn(move || blocking_pair(&other, "other", 20));
                eventually_blocking("another client connects", || other.is_finished());
                other.join().unwrap().unwrap();
            })
        });
        assert!(found.count() > 10);
    }
}

/// A queue allocates a block for every 32 commands. Commands behind it cannot be sent while a thread is suspended
/// there.
#[test]
fn caller_behind_a_suspended_thread_keeps_its_deadline() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start();
    for in_runtime in [false, true] {
        let site = AllocationSite { nth: 1, of: LARGE };
        // Its queue reuses no block yet.
        let shared = client([&server]);
        blocking_pair(&shared, "connected", 20).unwrap();
        let found = while_suspended(site, pairs(in_runtime, site, &shared), || {
            let redlock = shared.clone();
            let behind = std::thread::spawn(move || blocking_pair(&redlock, "behind", 1));
            eventually_blocking("the caller keeps its deadline", || behind.is_finished());
            assert!(behind.join().unwrap().is_err(), "it is not behind the suspended thread");
        });
        assert!(found);
    }
}

/// The background thread renews the leases of a `memory://` store. It must not wait for a thread that is suspended
/// there.
#[test]
fn caller_behind_a_suspended_thread_in_a_memory_store_keeps_its_deadline() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let each = (1..).map(|nth| AllocationSite { nth, of: LARGE_IN_MEMORY });
    let found = each.take_while(|site| {
        let shared = Redlock::builder(["memory://"]).build().unwrap();
        while_suspended(*site, pairs(false, *site, &shared), || {
            let redlock = shared.clone();
            let behind = std::thread::spawn(move || blocking_pair(&redlock, "behind", 1));
            eventually_blocking("the caller keeps its deadline", || behind.is_finished());
            let _ = behind.join().unwrap();
        })
    });
    assert!(found.count() > 0);
}

/// A thread that is suspended while it extends a lease blocks no renewal of other clients.
#[test]
fn suspended_extend_blocks_no_renewal() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let clocks = [(); 2].map(|()| TestClock::new());
    let [redlock, other] =
        [&clocks[0], &clocks[1]].map(|clock| TestRedlock::with_clock(clock).unwrap());
    let kept = other.lock("kept").acquire_blocking().unwrap();
    let third = kept.ttl() / 3;
    let each = (1..).map(|nth| AllocationSite { nth, of: 0 });
    let found = each.take_while(|site| {
        let lease = redlock.lock("extended").acquire_blocking().unwrap();
        let extend = move || drop(lease.extend(lease.ttl()));
        while_suspended(*site, extend, || {
            // Its renewal is due, and then its deadline.
            for _ in 0..3 {
                clocks[0].jump(third);
                let renewed = other.stats().renewed;
                clocks[1].jump(third);
                eventually_blocking("another lease is renewed", || other.stats().renewed > renewed);
            }
        })
    });
    assert!(found.count() > 3);
    assert!(kept.is_held());
}

/// Acquires and releases locks of this client, as a thread or in a runtime.
fn pairs(in_runtime: bool, site: AllocationSite, redlock: &Redlock) -> impl FnOnce() + use<> {
    let redlock = redlock.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    move || {
        // Enough for a block of the queue.
        for turn in 0..if site.of == 0 { 2 } else { 40 } {
            let name = format!("suspended {turn}");
            // It may miss its own deadline.
            let _ = if in_runtime {
                runtime.block_on(async { redlock.lock(name).acquire().await?.release().await })
            } else {
                blocking_pair(&redlock, &name, 1)
            };
        }
    }
}

/// Calls `act` while a thread that does the `work` is suspended there. Returns false if it made fewer allocations.
fn while_suspended(
    site: AllocationSite,
    work: impl FnOnce() + Send + 'static,
    act: impl FnOnce(),
) -> bool {
    let suspended = std::thread::spawn(move || {
        SUSPENDED_AT.set(Some(site));
        work();
        SUSPENDED_AT.set(None);
    });
    let is_suspended = || *SUSPENDED.lock().unwrap();
    eventually_blocking("a thread is suspended", || is_suspended() || suspended.is_finished());
    let found = is_suspended();
    if found {
        act();
        *SUSPENDED.lock().unwrap() = false;
        RESUMED.notify_all();
    }
    suspended.join().unwrap();
    found
}

fn blocking_pair(redlock: &Redlock, name: &str, wait_s: u64) -> redlock::Result<()> {
    let lock = redlock.lock(name).wait(Duration::from_secs(wait_s));
    lock.acquire_blocking()?.release_blocking()
}
