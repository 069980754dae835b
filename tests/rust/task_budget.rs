//! Thousands of calls in one task. Each is polled only when its own reply has arrived.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use redlock::Redlock;
use tokio::task::coop::consume_budget;

use crate::support::runtimes::block_on_thread;
use crate::support::{Server, client, within};

const CALLERS: usize = 2000;

/// Counts the polls of this future.
async fn counted<F: Future>(polls: &Cell<usize>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
    .await
}

#[tokio::test]
async fn polls_each_of_thousands_of_calls_a_few_times() {
    let server = Server::start();
    let redlock = client([&server]);
    redlock.lock("first").acquire().await.unwrap().release().await.unwrap();
    let polls = Cell::new(0);
    let pair = async |at: usize| {
        let lease = redlock.lock(format!("job-{at}")).acquire().await.unwrap();
        lease.release().await.unwrap();
    };
    join_all((0..CALLERS).map(|at| counted(&polls, pair(at)))).await;
    // About one poll for each reply. tokio's budget allows 128 operations in a turn of a task. Without the exemption
    // from it, each call had 17 polls, and more with more calls.
    let each = polls.get() / CALLERS;
    assert!(each <= 6, "{each} polls of each of {CALLERS} pairs");
}

/// Each call on `memory://` has its reply at once. A task that waited in such a loop kept all others from running.
#[test]
fn loops_of_calls_on_memory_let_other_tasks_run() {
    for kind in ["try_acquire", "wait", "inspect", "extend", "using", "once", "queue"] {
        within(Duration::from_secs(20), move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let redlock = Redlock::builder(["memory://"]).build().unwrap();
                let held = redlock.lock("job").acquire().await.unwrap();
                let other = redlock.lock("other").acquire().await.unwrap();
                if kind == "queue" {
                    // Then no node is asked.
                    let waits = redlock.lock("job").acquire();
                    tokio::spawn(async { waits.await.unwrap().release().await.unwrap() });
                    tokio::task::yield_now().await;
                }
                let ends = tokio::spawn(async move { held.release().await.unwrap() });
                let mut calls = 0;
                while !ends.is_finished() {
                    calls += 1;
                    assert!(calls < 1000, "{kind}");
                    let lock = redlock.lock("job").wait(Duration::ZERO);
                    match kind {
                        "try_acquire" | "queue" => drop(lock.try_acquire().await.unwrap()),
                        "wait" => drop(lock.acquire().await),
                        "inspect" => drop(lock.inspect().await.unwrap()),
                        "extend" => other.extend(Duration::from_secs(10)).await.unwrap(),
                        "using" => redlock.lock("free").using(async |_| ()).await.unwrap(),
                        _ => {
                            let once = redlock.once("done", Duration::from_secs(60));
                            once.run(async |_| Ok::<_, redlock::Error>(())).await.unwrap();
                        }
                    }
                }
            });
        });
    }
}

/// In a task that has used up its budget, tokio wakes a future only after the turn of the task.
#[test]
fn call_under_another_executor_ends_in_a_task_without_budget() {
    let error = within(Duration::from_secs(20), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let redlock = Redlock::builder(["memory://"]).build().unwrap();
            let _held = redlock.lock("job").acquire().await.unwrap();
            while consume_budget().now_or_never().is_some() {}
            let lock = redlock.lock("job").wait(Duration::from_millis(1));
            block_on_thread(lock.acquire()).unwrap_err()
        })
    });
    assert_eq!(error.code(), "timeout");
}

/// Each is interrupted once, even if they are polled together.
#[test]
fn calls_under_another_executor_end_together_in_a_task_without_budget() {
    within(Duration::from_secs(20), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let redlock = Redlock::builder(["memory://"]).build().unwrap();
            let held = redlock.lock("job").acquire().await.unwrap();
            while consume_budget().now_or_never().is_some() {}
            let release = async {
                assert!(redlock.lock("job").inspect().await.unwrap().held);
                held.release().await.unwrap();
            };
            let acquire = redlock.lock("job").acquire();
            let ((), lease) = block_on_thread(join(release, acquire));
            lease.unwrap().release().await.unwrap();
            block_on_thread(redlock.lock("job").using(async |_| ())).unwrap();
            let once = redlock.once("done", Duration::from_secs(60));
            let body = async |_| Ok::<_, redlock::Error>(());
            block_on_thread(once.run(body)).unwrap();
            block_on_thread(redlock.leader("first").run(body)).unwrap();
        });
    });
}
