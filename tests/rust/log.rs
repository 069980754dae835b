//! A subscriber is user code. If it blocks or panics, leases stay alive and every call returns.
//!
//! This is a separate test program with one subscriber. Its tests take turns.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod node_records;
mod support;

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock::testing::{Clock, Sleep, SystemClock};
use redlock::{LossReason, Redlock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber, span};
use tracing_core::span::Current;

use support::{Proxy, Server, block_on, client, eventually_blocking, millis, within};

/// What the subscriber does with an event.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Writes,
    /// Blocks like a logger with a full pipe, from the first line with this text on. Lines of an earlier test's client
    /// may still arrive.
    BlocksAt(&'static str),
    Panics,
}

static TURN: Mutex<()> = Mutex::new(());
/// The behaviour, and how often a test has set one.
static BEHAVIOUR: Mutex<(Behaviour, u32)> = Mutex::new((Behaviour::Writes, 0));
static CHANGED: Condvar = Condvar::new();
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static SPAN: Mutex<Option<&'static Metadata<'static>>> = Mutex::new(None);
static CURRENT_SPAN: AtomicU64 = AtomicU64::new(0);
/// The number of references to spans. Each takes memory of the subscriber, and of the queue.
static SPANS: AtomicI64 = AtomicI64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TestHook;

impl Subscriber for TestHook {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        let parent = event.parent().map_or(0, span::Id::into_u64);
        write!(text.0, "{} span={parent} ", event.metadata().level()).unwrap();
        event.record(&mut text);
        if std::env::var_os(LOG_AND_EXIT).is_some() {
            println!("logged: {}", text.0);
        }
        // One behaviour for the whole line, which the next test may have cleared when this thread wakes.
        let mut known = lock(&BEHAVIOUR);
        let (behaviour, number) = *known;
        lock(&LINES).push(text.0.clone());
        assert!(behaviour != Behaviour::Panics, "a subscriber that panics");
        if matches!(behaviour, Behaviour::BlocksAt(words) if text.0.contains(words)) {
            while known.1 == number {
                known = CHANGED.wait(known).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn current_span(&self) -> Current {
        match CURRENT_SPAN.load(Ordering::Relaxed) {
            0 => Current::none(),
            id => Current::new(span::Id::from_u64(id), lock(&SPAN).unwrap()),
        }
    }

    fn new_span(&self, made: &span::Attributes<'_>) -> span::Id {
        *lock(&SPAN) = Some(made.metadata());
        SPANS.fetch_add(1, Ordering::Relaxed);
        span::Id::from_u64(7)
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        SPANS.fetch_add(1, Ordering::Relaxed);
        id.clone()
    }

    fn try_close(&self, _: span::Id) -> bool {
        SPANS.fetch_sub(1, Ordering::Relaxed);
        false
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, id: &span::Id) {
        CURRENT_SPAN.store(id.into_u64(), Ordering::Relaxed);
    }
    fn exit(&self, _: &span::Id) {
        CURRENT_SPAN.store(0, Ordering::Relaxed);
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// Lets the tests take turns with the one subscriber. Afterwards it writes again, whatever its state.
struct Turn(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Turn {
    fn take() -> Self {
        static ONCE: std::sync::Once = std::sync::Once::new();
        let turn = lock(&TURN);
        ONCE.call_once(|| tracing::subscriber::set_global_default(TestHook).unwrap());
        lock(&LINES).clear();
        Self(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        set_behaviour(Behaviour::Writes);
    }
}

fn set_behaviour(next: Behaviour) {
    let mut known = lock(&BEHAVIOUR);
    *known = (next, known.1 + 1);
    drop(known);
    CHANGED.notify_all();
}

/// The lines so far with this text, once there are at least this many.
fn lines_with(words: &str, least: usize) -> Vec<String> {
    let mut found = Vec::new();
    eventually_blocking(words, || {
        found = lock(&LINES).iter().filter(|line| line.contains(words)).cloned().collect();
        found.len() >= least
    });
    found
}

#[test]
fn blocking_subscriber_delays_nothing() {
    let _turn = Turn::take();
    let server = Server::start();
    let redlock = client([&server]);
    let (kept, gone) = block_on(async {
        let kept = redlock.lock("kept").ttl(millis(600)).acquire().await.unwrap();
        let gone = redlock.lock("gone").ttl(millis(600)).acquire().await.unwrap();
        (kept.into_handle(), gone.into_handle())
    });
    set_behaviour(Behaviour::BlocksAt("lock:gone"));
    server.ask("DEL lock:gone");
    lines_with("lock:gone", 1); // blocked from here on
    let before = redlock.stats().renewed;
    eventually_blocking("renewals", || redlock.stats().renewed >= before + 6);
    let again = redlock.clone();
    within(millis(5000), move || {
        assert!(kept.is_held(), "{:?}", kept.lost_reason());
        assert!(!gone.is_held());
        assert_eq!(gone.lost_reason(), Some(LossReason::Missing));
        block_on(async move {
            kept.extend(millis(700)).await.unwrap();
            kept.release().await.unwrap();
            again.lock("gone").wait(millis(1000)).acquire().await.unwrap().release().await.unwrap();
        });
    });
}

#[test]
fn blocking_subscriber_does_not_delay_loss_detection() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://blocked"]).build().unwrap();
    set_behaviour(Behaviour::BlocksAt("lock:late"));
    let hold = block_on(async {
        let lock = redlock.lock("late").ttl(millis(100)).renew(false);
        lock.acquire().await.unwrap().into_handle()
    });
    within(millis(5000), move || {
        while hold.is_held() {
            std::thread::yield_now();
        }
        assert_eq!(hold.lost_reason(), Some(LossReason::Expired));
    });
}

#[test]
fn panicking_subscriber_ends_no_connection_or_lease() {
    let _turn = Turn::take();
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = Redlock::builder([proxy.url()]).build().unwrap();
    let kept = block_on(redlock.lock("kept").ttl(millis(2000)).acquire()).unwrap();
    let lost = block_on(redlock.lock("lost").acquire()).unwrap();
    set_behaviour(Behaviour::Panics);
    server.ask("DEL lock:lost");
    lines_with("lock:lost", 1);
    drop(lost);
    proxy.reset();
    let before = redlock.stats().renewed;
    eventually_blocking("renewals", || redlock.stats().renewed >= before + 4);
    assert!(kept.is_held(), "{:?}", kept.lost_reason());
    block_on(kept.release()).unwrap();
    drop(block_on(redlock.lock("next").acquire()).unwrap());
}

#[test]
fn full_log_queue_drops_and_counts_events() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://flood"]).build().unwrap();
    set_behaviour(Behaviour::BlocksAt("lease lost"));
    let lost = 3000;
    let _holds = block_on(async {
        let mut holds = Vec::new();
        for at in 0..lost {
            let lock = redlock.lock(format!("flood-{at}"));
            holds.push(lock.acquire().await.unwrap().into_handle());
            redlock.force_release(format!("flood-{at}")).await.unwrap();
            if at == 0 {
                // From now on, no line is written. The events that end these waits take no space in the queue.
                lines_with("lease lost", 1);
                for _ in 0..2 * lost {
                    let quiet = redlock.lock("quiet").acquire().await.unwrap();
                    quiet.release().await.unwrap();
                }
            }
        }
        holds
    });
    eventually_blocking("leases whose keys are gone are lost", || redlock.leases().is_empty());
    set_behaviour(Behaviour::Writes);
    let number = |line: &String| -> usize {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("dropped="));
        word.unwrap().parse().unwrap()
    };
    let (mut dropped, mut logged) = (0, 0);
    // The clients of other tests may log as well.
    eventually_blocking("each is logged or counted", || {
        dropped = lines_with("were dropped", 1).iter().map(number).sum();
        logged = lines_with("lease lost", 1).len();
        logged + dropped >= lost
    });
    assert!(dropped > 100 && logged > 100, "{dropped} {logged}");
}

#[test]
fn blocked_subscriber_bounds_the_queued_ends_of_spans() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://ends"]).build().unwrap();
    set_behaviour(Behaviour::BlocksAt("lock:blocks"));
    let blocking = block_on(redlock.lock("blocks").acquire()).unwrap();
    block_on(redlock.force_release("blocks")).unwrap();
    lines_with("lock:blocks", 1);
    let before = SPANS.load(Ordering::Relaxed);
    let cycles = |count: i64| {
        block_on(async {
            for _ in 0..count {
                let lease = redlock.lock("cycle").acquire().await.unwrap();
                lease.release().await.unwrap();
            }
        });
        SPANS.load(Ordering::Relaxed) - before
    };
    let most = cycles(5_000);
    assert!(most > 1_000, "{most}: without spans this tests nothing");
    assert!(cycles(5_000) < most + 100);
    set_behaviour(Behaviour::Writes);
    eventually_blocking("all spans are closed", || SPANS.load(Ordering::Relaxed) <= before);
    // The next span is preceded by the number of those that were not made.
    cycles(1);
    lines_with("spans were not made", 1);
    drop(blocking);
}

#[test]
fn events_of_a_lease_keep_order_and_span() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://order"]).build().unwrap();
    let span = tracing::info_span!(target: "redlock", "a request");
    let lease = {
        let _in = span.enter();
        // Polled here, so that its events are in this span.
        block_on(redlock.lock("order").ttl(Duration::from_secs(7200)).acquire()).unwrap()
    };
    block_on(redlock.force_release("order")).unwrap();
    let lines = {
        lines_with("lease lost", 1);
        lines_with("lock:order", 2)
    };
    assert!(lines[0].contains("above one hour") && lines[0].contains("span=7"), "{lines:?}");
    assert!(lines[1].contains("lease lost") && lines[1].contains("span=7"), "{lines:?}");
    drop(lease);
}

/// Time that runs a hundred times as fast.
struct FastClock;

impl Clock for FastClock {
    fn now(&self) -> redlock::testing::Instant {
        let nanos = u64::try_from(SystemClock.now().as_nanos()).unwrap();
        redlock::testing::Instant::from_start(Duration::from_nanos(nanos) * 100)
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: redlock::testing::Instant) -> Sleep {
        let nanos = u64::try_from(at.as_nanos() / 100).unwrap_or(u64::MAX);
        SystemClock.sleep_until(redlock::testing::Instant::from_start(Duration::from_nanos(nanos)))
    }
}

#[test]
fn endless_wait_is_logged_at_doubling_intervals() {
    let _turn = Turn::take();
    let server = Server::start();
    let fast = Redlock::builder([server.url()]).clock(Arc::new(FastClock)).build().unwrap();
    block_on(async {
        let lock = client(std::slice::from_ref(&server)).lock("patient");
        let lease = lock.ttl(Duration::from_secs(7200)).acquire().await.unwrap();
        let waits = |wait: Option<Duration>| {
            let lock = fast.lock("patient").ttl(Duration::from_secs(100));
            tokio::spawn(wait.map_or(lock.clone(), |wait| lock.clone().wait(wait)).acquire())
        };
        // The first waiter reports those behind it. A waiter with a timeout gets its error at that time.
        let (first, behind) = (waits(None), waits(None));
        let lines =
            tokio::task::spawn_blocking(|| lines_with("still waiting after", 2)).await.unwrap();
        assert_eq!(
            lines_with("still waiting after", 2).len(),
            2,
            "one for each doubling: {lines:?}"
        );
        for (line, least) in lines.iter().zip([30.0, 60.0]) {
            let (_, after) = line.split_once("still waiting after ").unwrap();
            let waited: f64 = after.split(' ').next().unwrap().parse().unwrap();
            assert!((least..least * 2.0).contains(&waited), "{line}");
            assert!(line.contains("lock:patient"), "{line}");
            assert!(line.contains("it is already held, and expires in 7"), "{line}");
            assert!(line.contains("wait sets no limit"), "{line}");
        }
        first.abort();
        behind.abort();
        let (_, _) = (first.await, behind.await);
        // Its error has all details.
        waits(Some(Duration::from_secs(70))).await.unwrap().unwrap_err();
        assert_eq!(lines_with("still waiting after", 0).len(), 2);
        lease.release().await.unwrap();
    });
}

/// A lock of the same name is another program, which may have made a mistake.
#[test]
fn long_campaign_is_not_logged() {
    let _turn = Turn::take();
    let server = Server::start();
    let fast = || Redlock::builder([server.url()]).clock(Arc::new(FastClock)).build().unwrap();
    let (candidate, other) = (fast(), fast());
    block_on(async {
        let lock = client(std::slice::from_ref(&server)).lock("elected");
        let lease = lock.ttl(Duration::from_secs(7200)).acquire().await.unwrap();
        let ttl = Duration::from_secs(100);
        let campaign = tokio::spawn(candidate.leader("elected").ttl(ttl).campaign());
        support::eventually("it campaigns", || candidate.stats().waiting == 1).await;
        let waits = tokio::spawn(other.lock("elected").ttl(ttl).acquire());
        let lines =
            tokio::task::spawn_blocking(|| lines_with("still waiting after", 2)).await.unwrap();
        // Both are of the lock, whose wait has doubled. The campaign waits for longer.
        let (_, after) = lines[1].split_once("still waiting after ").unwrap();
        let waited: f64 = after.split(' ').next().unwrap().parse().unwrap();
        assert!(lines.len() == 2 && waited >= 60.0, "{lines:?}");
        waits.abort();
        campaign.abort();
        let (_, _) = (campaign.await, waits.await);
        lease.release().await.unwrap();
    });
}

#[test]
fn long_holds_of_thousands_are_logged_up_to_a_limit() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://long"]).build().unwrap();
    block_on(async {
        let mut leases = Vec::new();
        for number in 0..150 {
            let lock = redlock.lock(format!("long-{number}")).ttl(millis(20_000));
            let lease = lock.acquire().await.unwrap();
            // Never shorter, so that it stays held even on a busy machine.
            lease.extend(millis(100)).await.unwrap();
            leases.push(lease);
        }
        lines_with("ten times its TTL", 100);
        tokio::time::sleep(millis(500)).await;
        assert_eq!(lines_with("ten times its TTL", 100).len(), 100);
    });
}

#[test]
fn long_hold_of_a_leader_is_not_logged() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://leader"]).build().unwrap();
    block_on(async {
        let lock = |name: &str| redlock.lock(name).ttl(millis(20_000));
        let limited = lock("leader-limited").max_hold(Duration::from_secs(60));
        let waiting = lock("leader-waits").wait(None);
        let elected = redlock.leader("leader-elected").ttl(millis(20_000));
        // Finds out when the others would have been logged.
        let last = lock("leader-by-default").acquire().await.unwrap();
        let within = lock("leader-within").acquire_within(None).await.unwrap();
        let leases = [
            limited.acquire().await.unwrap(),
            waiting.acquire().await.unwrap(),
            within,
            last,
            elected.campaign().await.unwrap(),
        ];
        for lease in &leases {
            // Never shorter, so that it stays held even on a busy machine.
            lease.extend(millis(100)).await.unwrap();
        }
        lines_with("ten times its TTL", 1);
        let renewed = redlock.stats().renewed;
        support::eventually("renewals", || redlock.stats().renewed > renewed + 15).await;
        let lines = lines_with("ten times its TTL", 1);
        assert!(lines.len() == 1 && lines[0].contains("leader-by-default"), "{lines:?}");
    });
}

#[test]
fn probable_mistakes_are_logged_once() {
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://mistakes"]).build().unwrap();
    block_on(async {
        let lease = redlock.lock("hours").acquire().await.unwrap();
        for _ in 0..2 {
            lease.extend(Duration::from_secs(30_000)).await.unwrap();
            drop(redlock.lock("report:{user}").acquire().await.unwrap());
            drop(redlock.lock("report:{}").acquire().await.unwrap());
        }
    });
    for count in [1, 2, 3, 4] {
        let urls = (0..count).map(|node| format!("memory://mistakes-{count}-{node}"));
        Redlock::builder(urls).build().unwrap();
    }
    for (words, text) in [
        ("the ttl is above one hour", "key=lock:hours"),
        ("the name may be a mistake: it contains {user} as text", "Use format!"),
        ("2 nodes survive no more failures than 1", "memory://mistakes-2-0 memory://mistakes-2-1"),
        ("4 nodes survive no more failures than 3", "Use an odd number"),
    ] {
        let lines = lines_with(words, 1);
        assert!(lines.len() == 1 && lines[0].contains(text), "{words}: {lines:?}");
    }
    assert_eq!(lines_with("survive no more", 2).len(), 2);
    assert_eq!(lines_with("may be a mistake", 1).len(), 1);
}

const LOG_AND_EXIT: &str = "LOG_AND_EXIT";

/// The test below runs this in a process that ends right after its event.
#[test]
fn process_that_logs_and_exits() {
    if std::env::var_os(LOG_AND_EXIT).is_none() {
        return;
    }
    let _turn = Turn::take();
    let redlock = Redlock::builder(["memory://last"]).build().unwrap();
    drop(block_on(redlock.lock("last").ttl(Duration::from_secs(7200)).acquire()).unwrap());
    std::process::exit(0);
}

#[test]
fn last_events_before_exit_are_logged() {
    for _ in 0..10 {
        let test = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(test);
        child
            .args(["--exact", "process_that_logs_and_exits", "--nocapture"])
            .env(LOG_AND_EXIT, "1");
        let out = child.output().unwrap();
        let out = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.contains("above one hour"), "{out}");
    }
}
