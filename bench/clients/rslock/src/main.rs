//! Benchmarks rslock with the arguments of ../../../programs.py. MODE: pairs, handoff.

#[path = "../../measure.rs"]
#[allow(dead_code, reason = "shared with the core's program")]
mod measure;

use futures_util::future::join_all;
use measure::{Arguments, Measured, begin, finish, stamp, stamps};
use rslock::LockManager;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::read();
    let mut manager = LockManager::new(arguments.urls.clone());
    if arguments.mode == "handoff" {
        // Its default is three attempts. The delay between them stays unchanged.
        manager.set_retry(u32::MAX, Duration::from_millis(200));
        return handoff(manager, arguments).await;
    }
    run(&manager, arguments.callers, Duration::from_millis(100)).await;
    begin();
    finish(&run(&manager, arguments.callers, arguments.length).await)
}

async fn run(manager: &LockManager, callers: usize, length: Duration) -> String {
    let measured = Measured::start(length);
    let (took, failed) = (RefCell::new(Vec::with_capacity(1 << 17)), Cell::new(0));
    let work = async |number: usize| {
        let name = format!("bench-{number}");
        let mut before = Instant::now();
        while before < measured.end {
            match manager.lock(name.as_bytes(), TTL).await {
                Ok(lock) => manager.unlock(&lock).await,
                Err(_) => failed.set(failed.get() + 1),
            }
            let now = Instant::now();
            took.borrow_mut().push(now - before);
            before = now;
        }
    };
    join_all((0..callers).map(work)).await;
    measured.result(took.into_inner(), failed.get())
}

async fn handoff(manager: LockManager, arguments: Arguments) {
    let first = manager.lock(b"first".as_slice(), TTL).await.expect("a lock");
    manager.unlock(&first).await;
    begin();
    let noted = RefCell::new(Vec::new());
    let work = async |_| {
        let asked = stamp();
        let lock = manager.lock(b"handoff".as_slice(), TTL).await.expect("a lock");
        let taken = stamp();
        tokio::time::sleep(Duration::from_millis(5)).await;
        noted.borrow_mut().push([asked, taken, stamp()]);
        manager.unlock(&lock).await;
    };
    // As in the core's program.
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
