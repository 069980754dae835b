//! Memory costs of an acquire and a release: allocations, and the size of the future. Also a thread that is suspended in
//! an allocation.
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
use std::time::Duration;

use redlock::{Lock, Redlock};
use support::{Server, client, eventually_blocking};

/// Number of acquires and releases in each part, one after the other.
const TURNS: usize = 100;
const PARTS: usize = 5;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static TRACING: AtomicBool = AtomicBool::new(false);
/// The minimum size of a block of 32 queued commands.
const LARGE: usize = 4096;
/// 1 while a thread is suspended in an allocation.
static SUSPENSION: AtomicUsize = AtomicUsize::new(0);
static CALL_SITES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// A backtrace allocates too.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static SUSPENDED: Cell<Option<Suspended>> = const { Cell::new(None) };
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

/// Suspends this thread if this is the place, as the system may do at any time. The thread holds what the code around it
/// has locked.
fn suspend(size: usize) {
    let Ok(Some(mut place)) = SUSPENDED.try_with(Cell::get) else { return };
    if size < place.of {
        return;
    }
    place.nth -= 1;
    SUSPENDED.set((place.nth > 0).then_some(place));
    if place.nth == 0 {
        SUSPENSION.store(1, Ordering::SeqCst);
        while SUSPENSION.load(Ordering::SeqCst) == 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Where a thread is suspended: in its n-th next allocation of at least this many bytes.
#[derive(Clone, Copy, Debug)]
struct Suspended {
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
    assert!(size <= 1152, "{size} bytes");
    assert!(size_of_val(&lock.try_acquire()) <= 1152);
}

/// A caller behind commands that a suspended thread has begun to submit gets an error at its deadline. All others continue.
#[test]
fn suspended_thread_blocks_no_other() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start();
    let connected = || {
        let redlock = client([&server]);
        blocking_pair(&redlock, "connected", 20).unwrap();
        redlock
    };
    let (other, mut delayed) = (connected(), Vec::new());
    for in_runtime in [false, true] {
        // Before the queue reuses its blocks.
        let block = Suspended { nth: 1, of: LARGE };
        let shared = connected();
        assert!(check(block, in_runtime, &shared, &other, &mut delayed));
        assert!(!delayed.is_empty(), "the caller is behind the commands of that thread");
        let each = (1..).map(|nth| Suspended { nth, of: 0 });
        let found = each.take_while(|at| check(*at, in_runtime, &shared, &other, &mut delayed));
        assert!(found.count() > 10);
    }
    // Another block may be among the places.
    assert!(delayed.len() <= 6, "{delayed:#?}");
}

/// Suspends a thread there, while others acquire. Returns false if the thread made fewer allocations.
fn check(
    place: Suspended,
    in_runtime: bool,
    shared: &Redlock,
    other: &Redlock,
    delayed: &mut Vec<String>,
) -> bool {
    SUSPENSION.store(0, Ordering::SeqCst);
    let redlock = shared.clone();
    let suspended = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        SUSPENDED.set(Some(place));
        // Enough for a block of the queue.
        for turn in 0..if place.of == 0 { 2 } else { 40 } {
            let name = format!("suspended {turn}");
            // It may miss its own deadline.
            let _ = if in_runtime {
                runtime.block_on(async { redlock.lock(name).acquire().await?.release().await })
            } else {
                blocking_pair(&redlock, &name, 1)
            };
        }
        SUSPENDED.set(None);
    });
    let is_suspended = || SUSPENSION.load(Ordering::SeqCst) == 1;
    eventually_blocking("a thread is suspended", || is_suspended() || suspended.is_finished());
    let found = is_suspended();
    if found {
        let redlock = shared.clone();
        let behind = std::thread::spawn(move || blocking_pair(&redlock, "behind", 1));
        eventually_blocking("the caller keeps its deadline", || behind.is_finished());
        if let Err(error) = behind.join().unwrap() {
            delayed.push(format!("{place:?}: {error}"));
        }
        blocking_pair(other, "other", 20).unwrap();
        SUSPENSION.store(2, Ordering::SeqCst);
    }
    suspended.join().unwrap();
    found
}

fn blocking_pair(redlock: &Redlock, name: &str, wait_s: u64) -> redlock::Result<()> {
    let lock = redlock.lock(name).wait(Duration::from_secs(wait_s));
    lock.acquire_blocking()?.release_blocking()
}
