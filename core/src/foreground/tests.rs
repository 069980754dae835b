//! Waits over a connection that is a pair of sockets, and over none.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
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
use super::{Here, Seat, Way, asked, wait};
use crate::background;

const LONG: Duration = Duration::from_secs(20);

/// A connection: what is read of it wakes whoever waits.
struct Line {
    ours: UnixStream,
    /// How many bytes were read.
    read: AtomicUsize,
    turns: AtomicUsize,
    helps: AtomicUsize,
    seated: AtomicUsize,
    free: bool,
    waker: Mutex<Option<Waker>>,
}

/// And its other end.
fn line(free: bool) -> (Arc<Line>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let count = AtomicUsize::default;
    let (read, turns, helps, seated) = (count(), count(), count(), count());
    (Arc::new(Line { ours, read, turns, helps, seated, free, waker: Mutex::default() }), theirs)
}

impl Way for Line {
    fn turn(&self, read: bool) -> bool {
        self.turns.fetch_add(1, Ordering::SeqCst);
        if read {
            let came = (&self.ours).read(&mut [0; 64]).unwrap_or(0);
            self.read.fetch_add(came, Ordering::SeqCst);
            self.waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
        }
        true
    }

    fn help(&self) {
        self.helps.fetch_add(1, Ordering::SeqCst);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn look_after(&self) {}

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn has_more(&self) -> bool {
        false
    }

    fn is_open(&self) -> bool {
        true
    }

    fn sit(&self) -> Option<Seat> {
        self.seated.fetch_add(usize::from(self.free), Ordering::SeqCst);
        self.free.then_some(Seat(1))
    }

    fn descriptor(&self, _: Seat) -> Option<i32> {
        Some(self.ours.as_raw_fd())
    }

    fn leave(&self, _: Seat) {
        self.seated.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn watch(&self, _: Seat, _: &Arc<Poller>, _: u64) -> bool {
        false
    }
}

/// Asks, and ends once so many bytes were read.
fn answer(line: &Arc<Line>, bytes: usize) -> impl Future<Output = ()> {
    let line = Arc::clone(line);
    let mut first = true;
    poll_fn(move |cx| {
        if std::mem::take(&mut first) {
            assert!(asked(&line), "this thread waits");
        }
        *line.waker.lock().unwrap() = Some(cx.waker().clone());
        if line.read.load(Ordering::SeqCst) >= bytes { Poll::Ready(()) } else { Poll::Pending }
    })
}

#[test]
fn waiting_thread_reads_and_releases_the_reader_role() {
    let (line, mut theirs) = line(true);
    let aside = thread::Builder::new().name("aside".into());
    let answers = aside.spawn(move || {
        thread::sleep(Duration::from_millis(30));
        theirs.write_all(b"x").unwrap();
        theirs
    });
    assert!(wait(pin!(answer(&line, 1)), LONG).unwrap().is_ready());
    drop(answers.unwrap().join());
    assert_eq!(line.helps.load(Ordering::SeqCst), 0);
    assert_eq!(line.seated.load(Ordering::SeqCst), 0, "it left");
}

#[test]
fn thread_without_the_reader_role_is_woken_by_another() {
    let (line, _theirs) = line(false);
    let other = Arc::clone(&line);
    let aside = thread::Builder::new().name("aside".into());
    let helper = aside.spawn(move || {
        while other.helps.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        other.read.store(1, Ordering::SeqCst);
        other.turn(true);
    });
    assert!(wait(pin!(answer(&line, 1)), LONG).unwrap().is_ready());
    helper.unwrap().join().unwrap();
}

#[test]
fn commands_outside_a_wait_are_sent() {
    let (line, _theirs) = line(true);
    assert!(!asked(&line), "nobody waits");
    let waits = Here::begin();
    assert!(asked(&line) && asked(&line));
    assert_eq!(line.turns.load(Ordering::SeqCst), 0);
    drop(waits);
    let turns_and_helps = (line.turns.load(Ordering::SeqCst), line.helps.load(Ordering::SeqCst));
    assert_eq!(turns_and_helps, (1, 1));
    assert!(!asked(&line));
}

#[test]
fn no_wakeup_is_lost() {
    let (sender, receiver) = mpsc::channel::<Waker>();
    let aside = thread::Builder::new().name("aside".into());
    let done = Arc::new(AtomicUsize::new(0));
    let rings = Arc::clone(&done);
    let ringer = aside.spawn(move || {
        for waker in receiver {
            rings.fetch_add(1, Ordering::SeqCst);
            waker.wake();
        }
    });
    for round in 1..=20_000 {
        let mut sent = false;
        let rung = poll_fn(|cx| {
            if !std::mem::replace(&mut sent, true) {
                sender.send(cx.waker().clone()).unwrap();
            }
            if done.load(Ordering::SeqCst) == round { Poll::Ready(()) } else { Poll::Pending }
        });
        assert!(wait(pin!(rung), LONG).unwrap().is_ready(), "round {round}");
    }
    drop(sender);
    ringer.unwrap().join().unwrap();
}

#[test]
fn timers_continue_across_waits() {
    // As a set that polls only what was woken itself.
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
