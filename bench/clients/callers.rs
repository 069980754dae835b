//! Benchmarks the core: `callers LIBRARY MODE PORT[,PORT...] CALLERS SECONDS` (bench/programs.py).
//!
//! LIBRARY is redlock (tasks of one thread's runtime) or redlock-blocking (a thread per caller, no runtime). MODE is
//! pairs, fenced, handoff, hold or once.

#![allow(clippy::cast_precision_loss, reason = "figures are printed")]
#![allow(unreachable_pub, reason = "`measure` is shared with another program")]

mod measure;

use futures_util::future::join_all;
use measure::{Arguments, Measured, begin, finish, stamp, stamps, used};
use redlock::{Error, Lease, Lock, Redlock};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::{Duration, Instant};

const WARM: Duration = Duration::from_millis(100);

fn main() -> Result<(), Error> {
    let arguments = Arguments::read();
    let builder = Redlock::builder(arguments.urls.clone()).restart_guard(Duration::ZERO);
    if arguments.library == "redlock-blocking" {
        blocking(&builder.build()?, &arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = builder.build()?;
    runtime.block_on(async {
        match arguments.mode.as_str() {
            "once" => client.lock("first").acquire().await?.release().await,
            "handoff" => handoff(&client, &arguments).await,
            "hold" => hold(&client, &arguments).await,
            _ => pairs(&client, &arguments).await,
        }
    })
}

fn locks(client: &Redlock, arguments: &Arguments) -> Vec<Lock> {
    let fenced = arguments.mode == "fenced";
    let lock = |number| client.lock(format!("bench-{number}")).fencing(fenced);
    (0..arguments.callers).map(lock).collect()
}

async fn pairs(client: &Redlock, arguments: &Arguments) -> Result<(), Error> {
    let locks = locks(client, arguments);
    run(&locks, WARM).await;
    begin();
    finish(&run(&locks, arguments.length).await)
}

async fn run(locks: &[Lock], length: Duration) -> String {
    let measured = Measured::start(length);
    let (took, failed) = (RefCell::new(Vec::with_capacity(1 << 17)), Cell::new(0));
    let work = async |lock: &Lock| {
        let mut before = Instant::now();
        while before < measured.end {
            let pair = async { lock.acquire().await?.release().await };
            failed.set(failed.get() + u64::from(pair.await.is_err()));
            let now = Instant::now();
            took.borrow_mut().push(now - before);
            before = now;
        }
    };
    match locks {
        [lock] => work(lock).await,
        _ => drop(join_all(locks.iter().map(work)).await),
    }
    measured.result(took.into_inner(), failed.get())
}

fn blocking(client: &Redlock, arguments: &Arguments) -> ! {
    let locks = locks(client, arguments);
    run_blocking(&locks, WARM);
    begin();
    finish(&run_blocking(&locks, arguments.length))
}

fn run_blocking(locks: &[Lock], length: Duration) -> String {
    let measured = Measured::start(length);
    let work = |lock: &Lock| {
        let (mut took, mut failed) = (Vec::with_capacity(1 << 16), 0);
        let mut before = Instant::now();
        while before < measured.end {
            let pair = lock.acquire_blocking().and_then(redlock::Lease::release_blocking);
            failed += u64::from(pair.is_err());
            let now = Instant::now();
            took.push(now - before);
            before = now;
        }
        (took, failed)
    };
    let parts: Vec<(Vec<Duration>, u64)> = match locks {
        [lock] => vec![work(lock)],
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = locks.iter().map(|lock| scope.spawn(|| work(lock))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        }),
    };
    let failed = parts.iter().map(|(_, failed)| failed).sum();
    measured.result(parts.into_iter().flat_map(|(took, _)| took).collect(), failed)
}

async fn handoff(client: &Redlock, arguments: &Arguments) -> Result<(), Error> {
    let lock = client.lock("handoff");
    lock.inspect().await?;
    begin();
    let noted = RefCell::new(Vec::new());
    let work = async |_| {
        let asked = stamp();
        let lease = lock.acquire().await.expect("a lease");
        let taken = stamp();
        tokio::time::sleep(Duration::from_millis(5)).await;
        noted.borrow_mut().push([asked, taken, stamp()]);
        lease.release().await.expect("released");
    };
    // A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
    // again immediately, and the others would only wait.
    let waves = async {
        loop {
            join_all((0..arguments.callers).map(work)).await;
        }
    };
    tokio::select! {
        () = waves => unreachable!("it has no end"),
        () = tokio::time::sleep(arguments.length) => finish(&stamps(&noted.borrow())),
    }
}

/// Measures the cost of this many held and renewed leases to this process. The first tenth includes everything that is
/// allocated once, however many there are.
async fn hold(client: &Redlock, arguments: &Arguments) -> Result<(), Error> {
    let (empty, alone, start) = (memory_kb(), threads(), Instant::now());
    let (mut leases, first) = (Vec::with_capacity(arguments.callers), arguments.callers / 10);
    take(client, 0..first, &mut leases).await?;
    let first_kb = memory_kb();
    take(client, first..arguments.callers, &mut leases).await?;
    let (taken, kb) = (start.elapsed().as_secs_f64(), memory_kb() - first_kb);
    begin();
    let before = used().0;
    tokio::time::sleep(arguments.length).await;
    let lost = leases.iter().filter(|lease| !lease.is_held()).count();
    finish(&format!(
        "{{\"leases\": {}, \"lost\": {lost}, \"cpu\": {}, \"kb\": {}, \"first_mb\": {}, \"threads\": {}, \"taken_s\": {taken}}}",
        leases.len(),
        used().0 - before,
        kb / (leases.len() - first) as f64,
        (first_kb - empty) / 1024.0,
        threads() - alone,
    ))
}

/// Acquires as many at once as a busy server has, and measures the time.
async fn take(client: &Redlock, these: Range<usize>, leases: &mut Vec<Lease>) -> Result<(), Error> {
    for part in these.collect::<Vec<_>>().chunks(1000) {
        let asked = part.iter().map(|number| client.lock(format!("held-{number}")).acquire());
        leases.extend(join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(())
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

fn memory_kb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0.0)
}
