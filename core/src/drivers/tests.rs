//! Tests a waiting thread and a runtime without an open connection. `node::redis::connection` tests a thread with one.

use std::future::poll_fn;
use std::panic;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::IdleConnection;
use super::{RuntimeDriver, poller, wait};
use crate::runtime::background;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn no_wakeup_is_lost() {
    let (sender, receiver) = mpsc::channel::<Waker>();
    let aside = thread::Builder::new().name("aside".into());
    let done = Arc::new(AtomicUsize::new(0));
    let wakes = Arc::clone(&done);
    let waking_thread = aside.spawn(move || {
        for waker in receiver {
            wakes.fetch_add(1, Ordering::SeqCst);
            waker.wake();
        }
    });
    for round in 1..=20_000 {
        let mut sent = false;
        let woken = poll_fn(|cx| {
            if !std::mem::replace(&mut sent, true) {
                sender.send(cx.waker().clone()).unwrap();
            }
            if done.load(Ordering::SeqCst) == round { Poll::Ready(()) } else { Poll::Pending }
        });
        assert!(wait(pin!(woken), LIMIT).is_ready(), "round {round}");
    }
    drop(sender);
    waking_thread.unwrap().join().unwrap();
}

#[test]
fn timers_continue_across_waits() {
    // A set that polls only woken futures.
    let mut timers: FuturesUnordered<_> =
        [60, 120].into_iter().map(|ms| background::sleep(Duration::from_millis(ms))).collect();
    let begun = Instant::now();
    let mut both = pin!(async { while timers.next().await.is_some() {} });
    let mut waits = 0;
    while wait(both.as_mut(), Duration::from_millis(7)).is_pending() {
        waits += 1;
        assert!(waits < 10_000, "the timers never end");
    }
    assert!(begun.elapsed() >= Duration::from_millis(120) && waits > 1);
}

#[test]
fn wait_ends_at_its_limit() {
    let begun = Instant::now();
    assert!(wait(pin!(std::future::pending::<()>()), Duration::from_millis(30)).is_pending());
    assert!(begun.elapsed() >= Duration::from_millis(30));
}

/// It serves one runtime at a time. A missing I/O driver costs nothing but the message of tokio's panic, once.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn driver_finds_the_runtime_by_itself() {
    let new = || tokio::runtime::Builder::new_current_thread();
    let (first, second) = (new().enable_io().build().unwrap(), new().enable_io().build().unwrap());
    let (driver, connection) = (RuntimeDriver::for_first(), IdleConnection::shared());
    let submit = async || driver.submit(&connection);
    assert!(!wait(pin!(submit()), LIMIT).eq(&Poll::Ready(true)), "outside of runtimes");
    let careless = RuntimeDriver::for_first();
    assert!(
        !new().build().unwrap().block_on(async { careless.submit(&connection) }),
        "without I/O"
    );
    assert!(!first.block_on(async { careless.submit(&connection) }), "the panic is not repeated");
    for _ in 0..2 {
        assert!(first.block_on(submit()));
        assert!(!second.block_on(submit()), "another runtime is served");
    }
    drop(first);
    assert!(second.block_on(submit()));
    drop(second);
    assert!(!wait(pin!(submit()), LIMIT).eq(&Poll::Ready(true)), "the runtime has ended");
}

/// Such a command would be lost: tokio panics in a runtime without I/O, and no task follows.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn commands_submitted_during_the_start_go_to_the_background_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let driver = Arc::new(RuntimeDriver::for_first());
    let submit = move || driver.submit(&IdleConnection::shared());
    let (sender, submitted) = mpsc::channel();
    let (this, during) = (thread::current().id(), submit.clone());
    let previous = Arc::new(panic::take_hook());
    let others = Arc::clone(&previous);
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == this {
            sender.send(during()).unwrap();
        } else {
            others(info);
        }
    }));
    let after = runtime.block_on(async { submit() });
    panic::set_hook(Box::new(move |info| previous(info)));
    assert_eq!((submitted.recv(), after), (Ok(false), false));
}

/// A foreign executor inside a task, for example, keeps the runtime from polling others.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn background_thread_works_for_a_blocked_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let (driver, connection) = (RuntimeDriver::for_first(), IdleConnection::shared());
    let _inside = runtime.enter();
    assert!(driver.submit(&connection));
    // The background thread checks as well, so the second check may find the pause.
    driver.check(runtime.handle());
    driver.check(runtime.handle());
    assert!(!driver.submit(&connection));
}

/// A child shares the epoll of its parent's runtime, and must not add to it.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn driver_leaves_the_runtime_of_the_parent_alone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let is_driven = || RuntimeDriver::for_first().submit(&IdleConnection::shared());
    let _inside = runtime.enter();
    assert!(is_driven());
    // SAFETY: the child runs only the tested code and exits immediately.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the first ends a child that hangs, the second ends no state of the parent.
        unsafe {
            libc::alarm(60);
            libc::_exit(is_driven().into());
        }
    }
    let mut status = 0;
    // SAFETY: the pointer to the status is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// A sandbox may lower the limit below the number of descriptors that are polled.
#[cfg(unix)]
#[test]
fn descriptors_beyond_the_limit_of_the_process_count_as_readable() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for a write.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_cur.min(1 << 20);
    // SAFETY: the limit is valid. No other test needs as many descriptors.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let descriptors = vec![0; usize::try_from(limit.rlim_cur).unwrap() + 1];
    let ready = poller::wait(&descriptors, LIMIT);
    assert!(ready.iter().copied().eq(0..descriptors.len()));
}
