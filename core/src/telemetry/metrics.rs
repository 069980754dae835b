//! Reports the metrics of the process to the program's recorder of the `metrics` crate.
//!
//! A recorder is code of the program: it may block, panic, or call this library. Therefore a separate thread calls it.
//! Durations reach the thread through a bounded queue and are dropped if the queue is full. Counters are kept by the
//! clients. The thread reads both once a second, and the queue as soon as it is half full: waking the thread for each
//! duration would cost more than an acquire. No count is ever dropped.
//!
//! The names and labels are those of the Python package's OpenTelemetry metrics, in Prometheus notation.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::stats::{Counts, Stats};
use crate::clock::{Clock, Instant, SystemClock};
use crate::runtime::{PerProcess, lock};

/// The length of the queue. Further durations are dropped.
const MAX_SAMPLES: usize = 4096;
/// How often the queue and the counters are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The thread and the queue of this process.
static METER: PerProcess<Meter> = PerProcess::new();

struct Meter {
    queue: SyncSender<Sample>,
    /// The number of durations in the queue.
    queued: Arc<AtomicUsize>,
    thread: Thread,
    clients: Arc<Mutex<Clients>>,
}

enum Sample {
    /// The outcome of an acquire, and how long it took.
    Wait(&'static str, Duration),
    /// How a lease ended, and how long it was held.
    Hold(&'static str, Duration),
}

/// The clients of this process. No user code runs under their lock.
struct Clients {
    live: Vec<Client>,
    /// The totals of clients that no longer exist.
    dropped: Stats,
}

#[derive(Clone)]
struct Client {
    counts: Arc<Counts>,
    /// Adds the current values. It does not keep the client alive.
    now: Arc<dyn Fn(&mut Stats) + Send + Sync>,
}

pub(crate) fn started(clock: &dyn Clock) -> Instant {
    clock.now()
}

pub(crate) fn waited(outcome: &'static str, time: impl FnOnce() -> Duration) {
    record(|| Sample::Wait(outcome, time()));
}

pub(crate) fn held(end: &'static str, time: impl FnOnce() -> Duration) {
    record(|| Sample::Hold(end, time()));
}

/// Reads the counters of a client from now on. `now` adds its current values.
pub(crate) fn watch(counts: &Arc<Counts>, now: impl Fn(&mut Stats) + Send + Sync + 'static) {
    // Without the thread nothing is reported, but locks work.
    let Ok(meter) = METER.get_or_try_make(|_| true, start) else { return };
    let (counts, now) = (Arc::clone(counts), Arc::new(now));
    let mut clients = lock(&meter.clients);
    clients.remove_dropped();
    // A client that was started again has the same counters.
    match clients.live.iter_mut().find(|client| Arc::ptr_eq(&client.counts, &counts)) {
        Some(client) => client.now = now,
        None => clients.live.push(Client { counts, now }),
    }
}

/// Queues a duration for the thread, and wakes it if the queue becomes half full. Never blocks.
fn record(sample: impl FnOnce() -> Sample) {
    let Some(meter) = METER.get() else { return };
    if meter.queue.try_send(sample()).is_ok()
        && meter.queued.fetch_add(1, Relaxed) + 1 == MAX_SAMPLES / 2
    {
        meter.thread.unpark();
    }
}

fn start() -> io::Result<Meter> {
    let (queue, samples) = sync_channel(MAX_SAMPLES);
    let none = Clients { live: Vec::new(), dropped: Counts::default().snapshot() };
    let (clients, queued) = (Arc::new(Mutex::new(none)), Arc::<AtomicUsize>::default());
    let (read_clients, read_queued) = (Arc::clone(&clients), Arc::clone(&queued));
    let thread = std::thread::Builder::new()
        .name("redlock-metrics".into())
        .spawn(move || run(&samples, &read_queued, &read_clients))?;
    Ok(Meter { queue, queued, thread: thread.thread().clone(), clients })
}

/// Runs until the queue is closed. This only happens if two threads started a meter at the same time.
fn run(samples: &Receiver<Sample>, queued: &AtomicUsize, clients: &Mutex<Clients>) {
    let (mut next, mut described) = (SystemClock.now() + REPORT_INTERVAL, false);
    while drain(samples, queued) {
        if SystemClock.now() >= next {
            if !std::mem::replace(&mut described, true) {
                guarded(describe);
            }
            publish(&total(clients));
            next = SystemClock.now() + REPORT_INTERVAL;
        }
        std::thread::park_timeout(next.since(SystemClock.now()));
    }
}

/// Reports the durations in the queue. Returns false if the queue is closed.
fn drain(samples: &Receiver<Sample>, queued: &AtomicUsize) -> bool {
    // At zero the next duration is the first of a new half, so the thread is woken again in time.
    queued.store(0, Relaxed);
    loop {
        match samples.try_recv() {
            Ok(Sample::Wait(outcome, time)) => guarded(|| {
                histogram!("redlock_wait_duration_seconds", "outcome" => outcome).record(time);
            }),
            Ok(Sample::Hold(end, time)) => guarded(|| {
                histogram!("redlock_hold_duration_seconds", "end" => end).record(time);
            }),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

impl Clients {
    /// Adds the counters of dropped clients to the totals.
    fn remove_dropped(&mut self) {
        let Self { live, dropped } = self;
        live.retain(|client| {
            let lives = Arc::strong_count(&client.counts) > 1;
            if !lives {
                add(dropped, &client.counts.snapshot());
            }
            lives
        });
    }
}

fn total(clients: &Mutex<Clients>) -> Stats {
    let mut clients = lock(clients);
    clients.remove_dropped();
    let mut total = clients.dropped.clone();
    let live = clients.live.clone();
    drop(clients);
    for client in live {
        let mut stats = client.counts.snapshot();
        (client.now)(&mut stats);
        add(&mut total, &stats);
    }
    total
}

fn add(sum: &mut Stats, stats: &Stats) {
    sum.granted += stats.granted;
    sum.refused += stats.refused;
    sum.timed_out += stats.timed_out;
    sum.unavailable += stats.unavailable;
    sum.released += stats.released;
    sum.renewed += stats.renewed;
    sum.unrenewed += stats.unrenewed;
    for ((_, sum), (_, count)) in sum.lost.iter_mut().zip(&stats.lost) {
        *sum += count;
    }
    sum.reconnects += stats.reconnects;
    sum.waiting += stats.waiting;
    sum.held += stats.held;
}

/// Reports to the recorder. Each value is a total, so the next report makes up for a failed one.
fn publish(total: &Stats) {
    let outcomes = [
        ("granted", total.granted),
        ("refused", total.refused),
        ("timeout", total.timed_out),
        ("unavailable", total.unavailable),
    ];
    for (outcome, count) in outcomes {
        guarded(|| counter!("redlock_acquires_total", "outcome" => outcome).absolute(count));
    }
    for (outcome, count) in [("confirmed", total.renewed), ("unconfirmed", total.unrenewed)] {
        guarded(|| counter!("redlock_renewals_total", "outcome" => outcome).absolute(count));
    }
    for (reason, count) in &total.lost {
        let reason = reason.as_str();
        guarded(|| counter!("redlock_losses_total", "reason" => reason).absolute(*count));
    }
    guarded(|| counter!("redlock_releases_total").absolute(total.released));
    guarded(|| counter!("redlock_reconnects_total").absolute(total.reconnects));
    #[allow(clippy::cast_precision_loss, reason = "the counts are far below 2^53")]
    let (held, waiting) = (total.held as f64, total.waiting as f64);
    guarded(|| gauge!("redlock_held").set(held));
    guarded(|| gauge!("redlock_waiting").set(waiting));
}

fn describe() {
    describe_counter!("redlock_acquires_total", "Acquires that ended, by outcome.");
    describe_counter!("redlock_renewals_total", "Renewals, by whether a quorum confirmed them.");
    describe_counter!("redlock_losses_total", "Leases that were lost, by reason.");
    describe_counter!("redlock_releases_total", "Leases that their owner released.");
    describe_counter!("redlock_reconnects_total", "Connections that were opened again.");
    describe_gauge!("redlock_held", "Leases that are held now.");
    describe_gauge!("redlock_waiting", "Acquires that are under way now.");
    describe_histogram!(
        "redlock_wait_duration_seconds",
        Unit::Seconds,
        "How long acquires took, by outcome."
    );
    describe_histogram!(
        "redlock_hold_duration_seconds",
        Unit::Seconds,
        "How long leases were held, by how they ended."
    );
}

/// Ignores a panic of the recorder. The panic hook has already reported it.
fn guarded(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}
