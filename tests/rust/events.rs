//! The events of each step, and their spans.
//!
//! This is a separate test program with one subscriber. Its tests take turns.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

mod support;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use redlock::Redlock;
use redlock::testing::{TestClock, TestRedlock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_core::span::Current;

use support::{Server, block_on, client, eventually_blocking, millis};

type Fields = HashMap<&'static str, String>;

/// An event or a span.
#[derive(Clone, Debug)]
struct Entry {
    /// The target of an event, or the name of a span.
    name: &'static str,
    level: Level,
    fields: Fields,
    /// The numbers of the enclosing spans, innermost first.
    within: Vec<u64>,
    closed: bool,
}

static TURN: Mutex<()> = Mutex::new(());
static WANTED: Mutex<LevelFilter> = Mutex::new(LevelFilter::DEBUG);
static EVENTS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Each with its number of handles.
static SPANS: Mutex<Vec<(Entry, usize, &'static Metadata<'static>)>> = Mutex::new(Vec::new());
/// What the subscriber does when the next span begins.
static IN_NEXT_SPAN: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
/// The subscriber calls of each thread.
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TestSubscriber;

impl TestSubscriber {
    fn entry(name: &'static str, level: Level, parent: Option<&Id>, contextual: bool) -> Entry {
        let innermost = || ENTERED.with_borrow(|entered| entered.last().copied());
        let parent = parent.map(Id::into_u64).or_else(|| innermost().filter(|_| contextual));
        let mut within = Vec::new();
        if let Some(parent) = parent {
            let index = usize::try_from(parent).unwrap() - 1;
            within = [&[parent], &lock(&SPANS)[index].0.within[..]].concat();
        }
        Entry { name, level, fields: Fields::new(), within, closed: false }
    }

    fn called() {
        let thread = std::thread::current();
        lock(&THREADS).push(thread.name().unwrap_or_default().to_owned());
    }
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for TestSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(*lock(&WANTED))
    }

    fn event(&self, event: &Event<'_>) {
        Self::called();
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let mut entry = Self::entry(target, level, event.parent(), event.is_contextual());
        event.record(&mut entry);
        lock(&EVENTS).push(entry);
    }

    fn new_span(&self, made: &Attributes<'_>) -> Id {
        Self::called();
        let act = lock(&IN_NEXT_SPAN).take();
        act.into_iter().for_each(|act| act());
        let (name, level) = (made.metadata().name(), *made.metadata().level());
        let mut entry = Self::entry(name, level, made.parent(), made.is_contextual());
        made.record(&mut entry);
        let mut spans = lock(&SPANS);
        spans.push((entry, 1, made.metadata()));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        Self::called();
        let index = usize::try_from(id.into_u64()).unwrap() - 1;
        values.record(&mut lock(&SPANS)[index].0);
    }

    fn clone_span(&self, id: &Id) -> Id {
        Self::called();
        lock(&SPANS)[usize::try_from(id.into_u64()).unwrap() - 1].1 += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        Self::called();
        let (span, count, _) = &mut lock(&SPANS)[usize::try_from(id.into_u64()).unwrap() - 1];
        *count -= 1;
        span.closed = *count == 0;
        span.closed
    }

    fn current_span(&self) -> Current {
        let id = ENTERED.with_borrow(|entered| entered.last().copied());
        id.map_or_else(Current::none, |id| {
            let metadata = lock(&SPANS)[usize::try_from(id).unwrap() - 1].2;
            Current::new(Id::from_u64(id), metadata)
        })
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }
    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }
}

/// Lets the tests take turns with the one subscriber.
fn turn(wanted: LevelFilter) -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    let turn = lock(&TURN);
    *lock(&WANTED) = wanted;
    ONCE.call_once(|| tracing::subscriber::set_global_default(TestSubscriber).unwrap());
    tracing::callsite::rebuild_interest_cache();
    lock(&EVENTS).clear();
    turn
}

/// The events with this text, once there are at least this many.
fn events_with(words: &str, least: usize) -> Vec<Entry> {
    let mut found = Vec::new();
    eventually_blocking(words, || {
        let is = |entry: &&Entry| entry.fields["message"].starts_with(words);
        found = lock(&EVENTS).iter().filter(is).cloned().collect();
        found.len() >= least
    });
    found
}

/// The events with this text of nodes whose URL begins so, once there are at least this many. The client of an earlier
/// test may still delete a key, on a server that is gone.
fn node_events(url: &str, words: &str, least: usize) -> Vec<Entry> {
    let mut found = Vec::new();
    eventually_blocking(words, || {
        found = current_events(words);
        found.retain(|entry| entry.fields["node"].starts_with(url));
        found.len() >= least
    });
    found
}

/// The closed spans of this name and key, once there are at least this many.
fn closed_spans(name: &str, key: &str, least: usize) -> Vec<Entry> {
    let mut found = Vec::new();
    eventually_blocking(name, || {
        let all: Vec<_> = lock(&SPANS).iter().map(|(span, ..)| span.clone()).collect();
        let of = |span: &&Entry| {
            span.name == name && span.fields.get("key").is_some_and(|found| found.contains(key))
        };
        found = all.iter().filter(of).filter(|span| span.closed).cloned().collect();
        found.len() >= least
    });
    found
}

fn milliseconds(entry: &Entry, field: &str) -> f64 {
    entry.fields[field].parse().unwrap_or_else(|_| panic!("{field} of {entry:?}"))
}

#[test]
fn logs_each_step_with_values_and_a_short_token() {
    let _turn = turn(LevelFilter::DEBUG);
    let server = Server::start();
    let redlock = client([&server]);
    let lock_of = |ttl| client([&server]).lock("steps").ttl(ttl);
    let token = block_on(async {
        let lease = redlock.lock("steps").ttl(millis(600)).acquire().await.unwrap();
        let waits = tokio::spawn(lock_of(millis(5000)).wait(millis(8000)).acquire());
        tokio::task::spawn_blocking(|| events_with("renewed", 1)).await.unwrap();
        let token = lease.token().to_owned();
        lease.release().await.unwrap();
        let next = waits.await.unwrap().unwrap();
        assert!(next.into_handle().detach());
        token
    });
    events_with("detached", 1);
    let [granted, next] = &events_with("granted", 2)[..] else { panic!("two acquires") };
    for (event, target) in [
        (granted, "redlock::acquire"),
        (&events_with("renewed", 1)[0], "redlock::lease"),
        (&events_with("released", 1)[0], "redlock::lease"),
    ] {
        assert_eq!((event.level, event.name), (Level::DEBUG, target));
        assert!(event.fields["key"].contains("lock:steps"), "{event:?}");
        assert_eq!(event.fields["token"], &token[..8]);
    }
    assert!((milliseconds(granted, "ttl_ms") - 600.0).abs() < 1e-9);
    assert!(milliseconds(next, "waited_ms") > milliseconds(granted, "waited_ms"));
    let left = milliseconds(&events_with("renewed", 1)[0], "remaining_ms");
    assert!(left > 100.0 && left <= 600.0, "{left}");
    assert!(milliseconds(&events_with("released", 1)[0], "held_ms") > 100.0);
    let waits = events_with("waiting: it is already held", 1);
    assert_eq!(waits.len(), 1, "once: {waits:?}");
    assert!(milliseconds(&waits[0], "remaining_ms") <= 600.0);
    assert_eq!(events_with("connected", 1)[0].name, "redlock::node");
    assert!(events_with("connected", 1)[0].fields["node"].contains("127.0.0.1"));
    let whole = lock(&EVENTS).iter().any(|entry| format!("{entry:?}").contains(&token));
    assert!(!whole, "the token is a secret");
}

#[test]
fn logs_a_wait_behind_other_callers_once() {
    let _turn = turn(LevelFilter::DEBUG);
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    block_on(async {
        let held = redlock.lock("line").label("web-3").acquire().await.unwrap();
        let first = tokio::spawn(redlock.lock("line").wait(millis(8000)).acquire());
        let waits = || events_with("waiting: it is already held by web-3, and expires", 1);
        let waits = tokio::task::spawn_blocking(waits).await.unwrap();
        assert_eq!(waits[0].fields["holder"], "web-3");
        let behind = tokio::spawn(redlock.lock("line").wait(millis(8000)).acquire());
        let waits = || events_with("waiting: other callers in this process", 1);
        let waits_logged = tokio::task::spawn_blocking(waits).await.unwrap();
        assert_eq!(waits_logged.len(), 1, "{waits_logged:?}");
        held.release().await.unwrap();
        first.await.unwrap().unwrap().release().await.unwrap();
        behind.await.unwrap().unwrap().release().await.unwrap();
    });
}

/// The events that say this now.
fn current_events(words: &str) -> Vec<Entry> {
    events_with(words, 0)
}

/// The records of outages of `memory://` nodes.
fn outages(least: usize) -> Vec<Entry> {
    node_events("memory://", "unavailable for ", least)
}

fn ends_of_outages(least: usize) -> Vec<Entry> {
    node_events("memory://", "available again after ", least)
}

#[test]
fn logs_an_outage_at_growing_intervals() {
    let _turn = turn(LevelFilter::DEBUG);
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    // Acquires that wait for long share one record with those that fail at once.
    let mut waits = Box::pin(redlock.lock("waits").wait(Duration::from_secs(86_400)).acquire());
    redlock.fail();
    let mut advance = |seconds| {
        block_on(async {
            tokio::select! {
                biased;
                lease = &mut waits => panic!("{lease:?} of a node that is down"),
                () = clock.advance(Duration::from_secs(seconds)) => {}
            }
            for _ in 0..100 {
                redlock.lock("fails").try_acquire().await.unwrap_err();
            }
        });
        // Behind all records so far.
        let flushes = current_events("the ttl is above one hour").len();
        let ttl = Duration::from_secs(7200 * (flushes as u64 + 1));
        block_on(redlock.lock("flush").ttl(ttl).try_acquire()).unwrap_err();
        events_with("the ttl is above one hour", flushes + 1);
        outages(0).len()
    };
    // (From 1 s, 10 s and 60 s on, then each 300 s.)
    let records: Vec<usize> = [0, 2, 7, 2, 48, 2, 290, 12, 600].map(&mut advance).into();
    assert_eq!(records, [0, 1, 1, 2, 2, 3, 3, 4, 6]);
    let failures: Vec<f64> =
        outages(0).iter().map(|entry| milliseconds(entry, "failures")).collect();
    assert!(failures.is_sorted() && failures[0] > 100.0, "{failures:?}");
    redlock.recover();
    let lease = block_on(async {
        let (lease, ()) = tokio::join!(waits, clock.advance(Duration::from_secs(3)));
        lease.unwrap()
    });
    let [back] = &ends_of_outages(1)[..] else { panic!("once") };
    assert_eq!((back.level, back.name), (Level::INFO, "redlock::node"));
    assert!(milliseconds(back, "outage_ms") > 963_000.0, "{back:?}");
    for record in outages(0) {
        assert_eq!((record.level, record.name), (Level::WARN, "redlock::node"));
        assert!(record.fields["message"].contains("a test has this node fail"), "{record:?}");
    }
    block_on(lease.release()).unwrap();
    let retries = events_with("retrying: ", 1);
    assert!(retries.iter().all(|entry| entry.level == Level::DEBUG), "{retries:?}");
}

#[test]
fn node_that_fails_again_at_once_continues_its_outage() {
    let _turn = turn(LevelFilter::DEBUG);
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    for _ in 0..120 {
        block_on(async {
            redlock.fail();
            redlock.lock("job").try_acquire().await.unwrap_err();
            redlock.recover();
            drop(redlock.lock("job").try_acquire().await.unwrap());
            clock.advance(millis(500)).await;
        });
    }
    assert_eq!((outages(2).len(), ends_of_outages(2).len()), (2, 2), "1 s and 10 s of 60");
}

#[test]
fn frequent_outages_are_logged_at_growing_intervals() {
    let _turn = turn(LevelFilter::INFO);
    let clock = TestClock::new();
    let redlock = TestRedlock::with_clock(&clock).unwrap();
    block_on(async {
        for _ in 0..100 {
            redlock.fail();
            redlock.lock("job").try_acquire().await.unwrap_err();
            clock.advance(millis(2000)).await;
            redlock.lock("job").try_acquire().await.unwrap_err();
            redlock.recover();
            drop(redlock.lock("job").try_acquire().await.unwrap());
            clock.advance(millis(4000)).await;
        }
        // Behind all records so far.
        drop(redlock.lock("flush").ttl(Duration::from_secs(7200)).try_acquire().await.unwrap());
    });
    events_with("the ttl is above one hour", 1);
    // At 2, 8, 14, 20, 32, 50, 86, 152, 284 and 542 s.
    let records = outages(0);
    assert_eq!((records.len(), ends_of_outages(0).len()), (10, 10));
    let last = &records[9].fields["message"];
    assert!(last.contains("(42 similar records were omitted before)"), "{last}");
}

#[test]
fn an_advance_waits_for_a_call_that_is_not_asleep() {
    let _turn = turn(LevelFilter::INFO);
    let clock = TestClock::new();
    for redlock in [TestRedlock::new().unwrap(), TestRedlock::with_clock(&clock).unwrap()] {
        let theirs = block_on(redlock.hold("job")).unwrap();
        let (begins, begun) = channel();
        let slow = Box::new(move || {
            begins.send(()).unwrap();
            thread::sleep(millis(50));
        });
        thread::scope(|scope| {
            // The span begins after the acquire has read the clock, and before it sleeps.
            *lock(&IN_NEXT_SPAN) = Some(slow);
            let acquire = redlock.lock("job").wait(millis(5000));
            let failed = scope.spawn(move || block_on(acquire.acquire()).unwrap_err());
            begun.recv().unwrap();
            block_on(redlock.advance(millis(60_000)));
            let waited = failed.join().unwrap().waited().unwrap();
            assert!(waited < millis(30_000), "{waited:?}");
        });
        block_on(theirs.release()).unwrap();
    }
}

#[test]
fn logs_an_outage_of_a_minority_node() {
    let _turn = turn(LevelFilter::INFO);
    let mut servers = crate::support::servers(3);
    let redlock = client(&servers);
    // Its renewals are votes. Without a lease, a node that nothing is asked of is not connected again.
    let lease = block_on(redlock.lock("outage").ttl(millis(600)).acquire()).unwrap();
    servers[2].kill();
    let url = servers[2].url();
    let [record] = &node_events(&url, "unavailable for ", 1)[..] else { panic!("once") };
    assert_eq!(record.level, Level::WARN);
    servers[2].restart();
    let [back] = &node_events(&url, "available again after ", 1)[..] else { panic!("once") };
    assert!(milliseconds(back, "outage_ms") >= 1000.0, "{back:?}");
    assert!(milliseconds(back, "failures") >= 2.0, "{back:?}");
    block_on(lease.release()).unwrap();
}

#[test]
fn logs_a_lost_connection_and_its_return_once() {
    let _turn = turn(LevelFilter::DEBUG);
    let mut server = Server::start();
    let redlock = client([&server]);
    block_on(async { drop(redlock.lock("outage").acquire().await.unwrap()) });
    server.kill();
    events_with("no connection", 1);
    // Several attempts fail meanwhile.
    for _ in 0..3 {
        block_on(redlock.lock("outage").wait(millis(100)).acquire()).unwrap_err();
    }
    server.restart();
    let [back] = &events_with("connected again", 1)[..] else { panic!("once") };
    assert_eq!(back.level, Level::DEBUG);
    assert!(milliseconds(back, "outage_ms") > 300.0, "{back:?}");
    assert_eq!(events_with("no connection", 1).len(), 1);
    assert_eq!(events_with("connected", 2).len(), 2, "with the one above");
}

#[test]
fn loss_is_logged_in_the_holders_span_and_ends_it() {
    let _turn = turn(LevelFilter::INFO);
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    let request = tracing::info_span!(target: "redlock", "request");
    let number = request.id().unwrap().into_u64();
    let lease = request.in_scope(|| block_on(redlock.lock("spans").acquire())).unwrap();
    drop(request);
    let acquires = closed_spans("redlock.acquire", "lock:spans", 1);
    assert_eq!((acquires[0].within[0], &*acquires[0].fields["outcome"]), (number, "\"granted\""));
    let open = lock(&SPANS).iter().any(|(span, ..)| span.name == "redlock.hold" && !span.closed);
    assert!(open, "it is held");
    block_on(redlock.force_release("spans")).unwrap();
    let lost = events_with("lease lost", 1);
    assert_eq!((lost[0].within.len(), lost[0].within[1]), (2, number), "{lost:?}");
    let held = closed_spans("redlock.hold", "lock:spans", 1);
    assert_eq!(held[0].within, [number]);
    assert_eq!(held[0].fields["token"].len(), 8 + 2);
    drop(lease);
    // A failed span has the reason.
    block_on(async {
        let _held = redlock.lock("taken").label("web-3").acquire().await.unwrap();
        redlock.lock("taken").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert!(redlock.lock("taken").try_acquire().await.unwrap().is_none());
    });
    let spans = closed_spans("redlock.acquire", "lock:taken", 3);
    let outcomes: Vec<_> = spans.iter().map(|span| &*span.fields["outcome"]).collect();
    assert_eq!(outcomes, ["\"granted\"", "\"timeout\"", "\"refused\""]);
    assert_eq!(spans[1].fields["holder"], "\"web-3\"");
    assert!(!spans[0].fields.contains_key("holder"));
    closed_spans("redlock.hold", "lock:taken", 1);
    let threads = lock(&THREADS);
    assert!(!threads.iter().any(|name| name == "redlock"), "never on the thread of the I/O");
}

#[test]
fn level_error_gets_no_spans_and_no_steps() {
    let _turn = turn(LevelFilter::ERROR);
    let redlock = Redlock::builder(["memory://"]).build().unwrap();
    let before = lock(&SPANS).len();
    block_on(async {
        redlock.lock("silent").acquire().await.unwrap().release().await.unwrap();
    });
    std::thread::sleep(millis(50));
    assert_eq!(lock(&SPANS).len(), before);
    assert!(lock(&EVENTS).is_empty());
}
