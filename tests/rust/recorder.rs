//! The recorder of these tests, with three behaviours. The tests take turns with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use redlock::Redlock;

use crate::support::eventually_blocking;

/// What the recorder does with a number.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Behaviour {
    Records,
    Blocks,
    Panics,
}

static TURN: Mutex<()> = Mutex::new(());
static BEHAVIOUR: Mutex<Behaviour> = Mutex::new(Behaviour::Records);
static BLOCKED: AtomicBool = AtomicBool::new(false);
static CHANGED: Condvar = Condvar::new();
/// By name and label: the number, or the sum of a histogram's values.
static VALUES: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());
/// How often all counters were reported.
static FLUSHES: AtomicU64 = AtomicU64::new(0);
/// How often it was called, by thread.
static CALLS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TestHook;

/// One metric.
struct Number(String);

impl Number {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        *lock(&CALLS).entry(thread).or_default() += 1;
        let mut behaviour = lock(&BEHAVIOUR);
        assert!(*behaviour != Behaviour::Panics, "a recorder that panics");
        while *behaviour == Behaviour::Blocks {
            BLOCKED.store(true, Ordering::Relaxed);
            behaviour = CHANGED.wait(behaviour).unwrap_or_else(PoisonError::into_inner);
        }
        drop(behaviour);
        change(lock(&VALUES).entry(self.0.clone()).or_default());
    }
}

impl CounterFn for Number {
    fn increment(&self, _: u64) {
        unreachable!("counters are set by their absolute value");
    }
    fn absolute(&self, value: u64) {
        self.change(|number| *number = number.max(f64::from(u32::try_from(value).unwrap())));
    }
}

impl GaugeFn for Number {
    fn increment(&self, _: f64) {
        unreachable!("counters are set by their absolute value");
    }
    fn decrement(&self, _: f64) {
        unreachable!("counters are set by their absolute value");
    }
    fn set(&self, value: f64) {
        self.change(|number| *number = value);
        // It is the last one.
        if self.0 == "redlock_waiting" {
            FLUSHES.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl HistogramFn for Number {
    fn record(&self, value: f64) {
        self.change(|number| *number += value);
        *lock(&VALUES).entry(format!("{} count", self.0)).or_default() += 1.0;
    }
}

fn number(key: &Key) -> Arc<Number> {
    let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
    Arc::new(Number(key.name().to_owned() + &labels.collect::<String>()))
}

fn described(name: &KeyName, about: &SharedString) {
    lock(&VALUES).insert(format!("{}: {about}", name.as_str()), 0.0);
}

impl Recorder for TestHook {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, about: SharedString) {
        described(&name, &about);
    }
    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, about: SharedString) {
        described(&name, &about);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, about: SharedString) {
        assert_eq!(unit, Some(Unit::Seconds));
        described(&name, &about);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(number(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(number(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(number(key))
    }
}

/// Lets the tests take turns with the one recorder. Afterwards it records again, whatever its state.
pub(crate) struct Turn {
    /// The values that earlier tests left.
    before: BTreeMap<String, f64>,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    pub(crate) fn take() -> Self {
        static ONCE: Once = Once::new();
        let turn = lock(&TURN);
        ONCE.call_once(|| metrics::set_global_recorder(TestHook).unwrap());
        // It receives nothing before the first lock. The end of the last test arrives within two flushes.
        let first = Redlock::builder(["memory://"]).build().unwrap();
        first.lock("first").acquire_blocking().unwrap().release_blocking().unwrap();
        let before = FLUSHES.load(Ordering::Relaxed);
        let flushed = || FLUSHES.load(Ordering::Relaxed) >= before + 2;
        eventually_blocking("the counters are reported twice", flushed);
        Self { before: lock(&VALUES).clone(), _turn: turn }
    }

    /// How much a number has grown.
    pub(crate) fn growth(&self, name: &str) -> f64 {
        let now = lock(&VALUES).get(name).copied().unwrap_or_default();
        now - self.before.get(name).copied().unwrap_or_default()
    }

    /// Waits until a number has grown by this much.
    pub(crate) fn wait_for_growth(&self, name: &str, wanted: f64) {
        self.until(name, &format!("{wanted}"), |number| (number - wanted).abs() < 1e-9);
    }

    /// Waits until a number has grown.
    pub(crate) fn wait_for_any_growth(&self, name: &str) {
        self.until(name, "something", |number| number > 0.5);
    }

    fn until(&self, name: &str, wanted: &str, good: impl Fn(f64) -> bool) {
        let what = format!("{name}: {wanted} more");
        eventually_blocking(&what, || good(self.growth(name)));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        set_behaviour(Behaviour::Records);
    }
}

pub(crate) fn set_behaviour(next: Behaviour) {
    *lock(&BEHAVIOUR) = next;
    CHANGED.notify_all();
}

/// Makes the recorder block, and waits until it does.
pub(crate) fn block() {
    BLOCKED.store(false, Ordering::Relaxed);
    set_behaviour(Behaviour::Blocks);
    eventually_blocking("it is called", || BLOCKED.load(Ordering::Relaxed));
}

/// Waits until the recorder was called this many more times.
pub(crate) fn called(times: u64) {
    let calls = || lock(&CALLS).values().sum::<u64>();
    let before = calls();
    eventually_blocking("it is called", || calls() >= before + times);
}

/// The names that were described.
pub(crate) fn described_names() -> Vec<String> {
    lock(&VALUES).keys().filter_map(|name| Some(name.split_once(": ")?.0.to_owned())).collect()
}

/// The threads on which it was called.
pub(crate) fn threads() -> Vec<String> {
    lock(&CALLS).keys().cloned().collect()
}
