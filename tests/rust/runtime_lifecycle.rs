//! A client whose runtime is blocked, idle, shut down, or owned by another process.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use redlock::ffi::{self, Unit};
use redlock::{ErrorKind, Lease, Lock, LossReason};
use tokio::runtime::{Builder, Handle};

use crate::support::runtimes::{block_on_thread, client_of, pairs, runtimes, wait_empty};
use crate::support::{Server, builder, client, millis, within};

#[test]
fn refuses_a_runtime_without_io() {
    let server = Server::start();
    let refused = |handle: &Handle| {
        let refused = builder([server.url()]).runtime(handle.clone()).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        refused.to_string()
    };
    let without = Builder::new_current_thread().enable_time().build().unwrap();
    let ended = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = ended.handle().clone();
    drop(ended);
    if cfg!(target_os = "linux") {
        assert!(refused(without.handle()).contains("enable_io"));
        assert!(refused(&handle).contains("has shut down"));
    }
}

/// No thread runs the runtime any more, or for now. The last command is sent nevertheless.
#[test]
fn lease_dropped_last_in_a_runtime_is_released() {
    for runtime in runtimes() {
        let server = Server::start();
        let client = client_of(runtime.handle(), &server);
        for count in [1, 8] {
            runtime.block_on(async {
                pairs(&client, "warm", 20).await;
                let locks = (0..count).map(|number| client.lock(format!("job-{number}")));
                let leases = join_all(locks.map(|lock| lock.acquire())).await;
                assert_eq!(server.ask("DBSIZE"), format!(":{count}"));
                drop(leases);
            });
            wait_empty(&server);
        }
    }
}

/// Its threads belong to the runtime, but none of them runs it.
#[test]
fn background_thread_reads_if_the_runtime_is_not_run() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let client = client_of(runtime.handle(), &server);
    runtime.block_on(pairs(&client, "warm", 50));
    within(Duration::from_secs(10), move || {
        let _inside = runtime.enter();
        block_on_thread(pairs(&client, "job", 10));
        block_on_thread(pairs(&client_of(runtime.handle(), &server), "cold", 10));
    });
}

/// A foreign executor inside a task, for example, keeps the runtime from polling the client's own task.
#[test]
fn background_thread_reads_if_a_task_blocks_the_runtime() {
    for runtime in runtimes() {
        let server = Server::start();
        let clients = [client_of(runtime.handle(), &server), client([&server])];
        within(Duration::from_secs(60), move || {
            for client in clients {
                runtime.block_on(async {
                    pairs(&client, "warm", 50).await;
                    block_on_thread(pairs(&client, "job", 100));
                });
            }
            // The server lives until here.
            drop(server);
        });
    }
}

/// Runs a check in a forked child. Returns whether it succeeded. Meanwhile, the parent runs `work` repeatedly.
#[cfg(unix)]
async fn succeeds_in_child(check: impl FnOnce() -> bool, mut work: impl AsyncFnMut()) -> bool {
    // SAFETY: the child runs only the tested code and exits immediately.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(60) };
        let checked = catch_unwind(AssertUnwindSafe(check)).unwrap_or_default();
        // SAFETY: it ends no state of the parent.
        unsafe { libc::_exit(i32::from(!checked)) };
    }
    let mut status = 0;
    // SAFETY: the pointer to the status is valid.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        work().await;
    }
    status == 0
}

/// The result of a call: a number, or the loss reason.
#[cfg(unix)]
type Outcome = Result<usize, Option<LossReason>>;

/// A call in progress.
#[cfg(unix)]
type Call<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

#[cfg(unix)]
fn call<'a, T>(
    future: impl Future<Output = redlock::Result<T>> + 'a,
    number: impl Fn(T) -> usize + 'a,
) -> Call<'a> {
    Box::pin(async move { future.await.map(number).map_err(|error| error.loss_reason()) })
}

/// A mutex that the call uses may be locked in the child, by a thread that does not exist there.
#[cfg(unix)]
#[test]
fn forked_child_continues_no_call_of_its_parent() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let [client, releasing, ending] = [(); 3].map(|()| client_of(runtime.handle(), &server));
    runtime.block_on(async {
        let held = client.lock("held").acquire().await.unwrap();
        let kept = [client.lock("released"), releasing.lock("b"), ending.lock("c")];
        let kept = join_all(kept.iter().map(Lock::acquire)).await;
        let kept: Vec<_> = kept.into_iter().map(|lease| lease.unwrap().into_handle()).collect();
        let (other, handle) = (client.lock("other"), held.handle());
        let lost = |error: redlock::Error| Err(error.loss_reason());
        let forked = Err(Some(LossReason::Forked));
        // No call ends before the fork.
        server.signal(libc::SIGSTOP);
        let mut calls: Vec<(&str, Outcome, Call<'_>)> = vec![
            ("acquire", forked, call(client.lock("held").acquire(), |_| 1)),
            ("try_acquire", forked, call(other.try_acquire(), |lease| lease.iter().count())),
            (
                "attach",
                forked,
                call(client.lock("held").attach(held.token()), |lease| lease.detach().into()),
            ),
            ("inspect", forked, call(other.inspect(), |found| found.nodes.len())),
            ("force_release", forked, call(client.force_release("free"), usize::from)),
            ("extend", forked, call(held.extend(millis(20_000)), |()| 1)),
            ("release", forked, call(kept[0].release(), |()| 1)),
            ("lost", forked, Box::pin(held.lost().map(lost))),
            ("ended", forked, Box::pin(handle.ended().map(|error| error.map_or(Ok(0), lost)))),
            ("release_all", Ok(0), call(releasing.release_all(), |count| count)),
            ("shutdown", Ok(0), call(ending.shutdown(Duration::from_secs(10)), |count| count)),
        ];
        for (name, _, call) in &mut calls {
            assert!(futures_util::poll!(call).is_pending(), "{name}");
        }
        let continued = succeeds_in_child(
            || {
                for (name, expected, call) in &mut calls {
                    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    assert_eq!(polled, Poll::Ready(*expected), "{name}");
                }
                // Calls that begin in the child, on a lease of the parent.
                let extended = ffi::extend(&handle, None, Unit::Seconds).and_then(block_on_thread);
                let (released, longer) =
                    (handle.release_blocking(), handle.extend_blocking(millis(20_000)));
                let begun = [extended, released, longer]
                    .map(|result| result.map_err(|error| error.loss_reason()));
                assert_eq!(begun, [forked.map(|_: usize| ()); 3]);
                assert!(block_on_thread(handle.lost()).loss_reason() == Some(LossReason::Forked));
                assert_eq!(
                    block_on_thread(ending.lock("d").acquire()).unwrap_err().code(),
                    "closed"
                );
                true
            },
            tokio::task::yield_now,
        );
        assert!(continued.await);
        server.signal(libc::SIGCONT);
    });
}

/// The runtime belongs to the parent process, which continues to use it.
#[cfg(unix)]
#[test]
fn forked_child_does_not_use_the_runtime() {
    let [runtime, _] = runtimes();
    let server = Server::start();
    let clients = [client_of(runtime.handle(), &server), builder([server.url()]).build().unwrap()];
    for client in clients {
        runtime.block_on(async {
            let lease = client.lock("held").ttl(millis(1000)).acquire().await.unwrap();
            pairs(&client, "warm", 50).await;
            let locked = succeeds_in_child(
                || {
                    let asked = block_on_thread(client.lock("child").acquire());
                    asked.and_then(Lease::release_blocking).is_ok() && !lease.is_held()
                },
                async || pairs(&client, "parent", 1).await,
            );
            assert!(locked.await);
            // Each pair takes a quarter of a second if only the background thread's timer reads.
            let many = tokio::time::timeout(Duration::from_secs(20), pairs(&client, "parent", 100));
            many.await.expect("the runtime reads");
            lease.ensure_held().unwrap();
            lease.release().await.unwrap();
        });
    }
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// Clients of the child exclude each other, whether they were made before the fork or after it.
#[cfg(unix)]
#[tokio::test]
async fn clients_of_a_forked_child_share_its_memory_stores() {
    let inherited = builder(["memory://forked"]).build().unwrap();
    let excluded = succeeds_in_child(
        || {
            let new = builder(["memory://forked"]).build().unwrap();
            let held = inherited.lock("job").try_acquire_blocking().unwrap();
            held.is_some() && new.lock("job").try_acquire_blocking().unwrap().is_none()
        },
        tokio::task::yield_now,
    );
    assert!(excluded.await);
}
