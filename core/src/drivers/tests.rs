//! Tests a waiting thread without a connection. `node::redis::connection` tests it with one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{poller, wait};
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
