//! Waits over a connection that is a pair of sockets, and over none.

use std::future::{Future, poll_fn};
use std::io::{Read as _, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::Poller;
use super::{Here, Read, ReaderRole, Way, asked, wait};
use crate::runtime::background;

const LIMIT: Duration = Duration::from_secs(20);

/// A connection whose received bytes wake the waiting task.
struct FakeConnection {
    ours: UnixStream,
    /// How many bytes were read.
    read: AtomicUsize,
    writes: AtomicUsize,
    delegations: AtomicUsize,
    readers: AtomicUsize,
    free: bool,
    waker: Mutex<Option<Waker>>,
}

/// Rewrites a connection and its other end.
fn connection(free: bool) -> (Arc<FakeConnection>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let count = AtomicUsize::default;
    let (read, writes, delegations, readers) = (count(), count(), count(), count());
    (
        Arc::new(FakeConnection {
            ours,
            read,
            writes,
            delegations,
            readers,
            free,
            waker: Mutex::default(),
        }),
        theirs,
    )
}

impl Way for FakeConnection {
    fn write(&self) -> bool {
        self.writes.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn read(&self) -> Read {
        let received = (&self.ours).read(&mut [0; 64]).unwrap_or(0);
        self.read.fetch_add(received, Ordering::SeqCst);
        self.waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
        Read::All
    }

    fn delegate(&self) {
        self.delegations.fetch_add(1, Ordering::SeqCst);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn supervise(&self) {}

    fn is_open(&self) -> bool {
        true
    }

    fn take_role(&self) -> Option<ReaderRole> {
        self.readers.fetch_add(usize::from(self.free), Ordering::SeqCst);
        self.free.then_some(ReaderRole(1))
    }

    fn descriptor(&self, _: ReaderRole) -> Option<i32> {
        Some(self.ours.as_raw_fd())
    }

    fn release_role(&self, _: ReaderRole) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn watch(&self, _: ReaderRole, _: &Arc<Poller>, _: u64) -> bool {
        false
    }
}

/// Sends a command, and completes once this many bytes were read.
fn reply(connection: &Arc<FakeConnection>, bytes: usize) -> impl Future<Output = ()> {
    let connection = Arc::clone(connection);
    let mut first = true;
    poll_fn(move |cx| {
        if std::mem::take(&mut first) {
            assert!(asked(&connection), "this thread waits");
        }
        *connection.waker.lock().unwrap() = Some(cx.waker().clone());
        if connection.read.load(Ordering::SeqCst) >= bytes {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
}

#[test]
fn waiting_thread_reads_and_releases_the_reader_role() {
    let (connection, mut theirs) = connection(true);
    let aside = thread::Builder::new().name("aside".into());
    let answers = aside.spawn(move || {
        thread::sleep(Duration::from_millis(30));
        theirs.write_all(b"x").unwrap();
        theirs
    });
    assert!(wait(pin!(reply(&connection, 1)), LIMIT).unwrap().is_ready());
    drop(answers.unwrap().join());
    assert_eq!(connection.delegations.load(Ordering::SeqCst), 0);
    assert_eq!(connection.readers.load(Ordering::SeqCst), 0, "the reader role is released");
}

#[test]
fn thread_without_the_reader_role_is_woken_by_another() {
    let (connection, _theirs) = connection(false);
    let other = Arc::clone(&connection);
    let aside = thread::Builder::new().name("aside".into());
    let helper = aside.spawn(move || {
        while other.delegations.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        other.read.store(1, Ordering::SeqCst);
        other.read();
    });
    assert!(wait(pin!(reply(&connection, 1)), LIMIT).unwrap().is_ready());
    helper.unwrap().join().unwrap();
}

#[test]
fn commands_outside_a_wait_are_sent() {
    let (connection, _theirs) = connection(true);
    assert!(!asked(&connection), "no thread waits");
    let waits = Here::begin();
    assert!(asked(&connection) && asked(&connection));
    assert_eq!(connection.writes.load(Ordering::SeqCst), 0);
    drop(waits);
    let counts =
        (connection.writes.load(Ordering::SeqCst), connection.delegations.load(Ordering::SeqCst));
    assert_eq!(counts, (1, 1));
    assert!(!asked(&connection));
}

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
        assert!(wait(pin!(woken), LIMIT).unwrap().is_ready(), "round {round}");
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
    while wait(both.as_mut(), Duration::from_millis(7)).unwrap().is_pending() {
        waits += 1;
        assert!(waits < 10_000, "the timers never end");
    }
    assert!(begun.elapsed() >= Duration::from_millis(120) && waits > 1);
}

#[test]
fn wait_ends_at_its_limit() {
    let begun = Instant::now();
    assert!(
        wait(pin!(std::future::pending::<()>()), Duration::from_millis(30)).unwrap().is_pending()
    );
    assert!(begun.elapsed() >= Duration::from_millis(30));
}
