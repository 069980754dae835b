//! Models of the core's lock-free state machines, in every interleaving of their threads and every order of memory that
//! loom knows.
//!
//! A model includes the core's own file, whose atomics are loom's here. Timeouts do not exist here, so a lost wake-up
//! is a deadlock, which loom reports. `make mutants` removes each rule of the files and expects a model to fail.

#![cfg(test)]

mod connection;
mod lease;
mod runtime;

use std::env;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, Thread};

use runtime::{SleepKind, Wakeup};

/// Runs a model with at most `preemptions` of them. The first tier allows one less, because each one multiplies the
/// number of interleavings.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let first = env::var("REDLOCK_TEST_TIER").map_or(true, |tier| tier == "first");
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions.saturating_sub(usize::from(first)));
    builder.check(model);
}

#[derive(Default)]
struct Eventfd {
    readable: bool,
    writes: usize,
}

/// A thread that sleeps until it has a number of jobs.
struct Sleeper {
    wakeup: Wakeup,
    thread: Thread,
    eventfd: Mutex<Eventfd>,
    changed: Condvar,
    /// The number of jobs. Relaxed, so that only the rings order the threads.
    jobs: AtomicUsize,
}

impl Sleeper {
    /// One that is this thread.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wakeup: Wakeup::new(),
            thread: thread::current(),
            eventfd: Mutex::new(Eventfd::default()),
            changed: Condvar::new(),
            jobs: AtomicUsize::new(0),
        })
    }

    /// Does the system call of a ring.
    fn wake(&self, sleep: SleepKind) {
        if sleep == SleepKind::Parked {
            return self.thread.unpark();
        }
        let mut eventfd = self.eventfd.lock().unwrap();
        *eventfd = Eventfd { readable: true, writes: eventfd.writes + 1 };
        self.changed.notify_all();
    }

    /// Publishes a job and rings.
    fn submit(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.wakeup.ring(|sleep| self.wake(sleep));
    }

    /// Sleeps until the jobs are there. Returns how often it slept.
    fn run(&self, how: SleepKind, jobs: usize) -> usize {
        let mut sleeps = 0;
        loop {
            if self.wakeup.take_rung() && self.jobs.load(Ordering::Relaxed) == jobs {
                return sleeps;
            }
            if !self.wakeup.begin_sleep(how) {
                continue;
            }
            sleeps += 1;
            match how {
                SleepKind::Parked => thread::park(),
                SleepKind::Polling => {
                    let mut eventfd = self.eventfd.lock().unwrap();
                    while !eventfd.readable {
                        eventfd = self.changed.wait(eventfd).unwrap();
                    }
                }
            }
            self.wakeup.wake_up();
            self.eventfd.lock().unwrap().readable = false;
        }
    }
}

/// Rings. Returns what the ring had to wake.
fn ring(wakeup: &Wakeup) -> Option<SleepKind> {
    let mut woken = None;
    wakeup.ring(|how| woken = Some(how));
    woken
}

#[test]
fn only_the_first_ring_wakes_a_sleeper() {
    check(0, || {
        let wakeup = Wakeup::new();
        assert!(
            !wakeup.begin_sleep(SleepKind::Polling) && wakeup.take_rung(),
            "it begins with a look"
        );
        for how in [SleepKind::Polling, SleepKind::Parked] {
            assert!(!wakeup.take_rung() && wakeup.begin_sleep(how) && !wakeup.is_rung());
            assert_eq!((ring(&wakeup), ring(&wakeup)), (Some(how), None));
            wakeup.wake_up();
            assert_eq!(ring(&wakeup), None, "it is awake");
            assert!(wakeup.is_rung() && !wakeup.begin_sleep(how) && wakeup.take_rung());
            // While the first ring is on its way to the system call, the next one makes it too.
            assert!(wakeup.begin_sleep(how));
            wakeup.ring(|_| assert_eq!(ring(&wakeup), Some(how)));
            assert_eq!(ring(&wakeup), None);
            assert!(wakeup.take_rung());
        }
    });
}

#[test]
fn no_ring_is_lost() {
    for how in [SleepKind::Polling, SleepKind::Parked] {
        check(3, move || {
            let sleeper = Sleeper::new();
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let sleeper = Arc::clone(&sleeper);
                    thread::spawn(move || sleeper.submit())
                })
                .collect();
            sleeper.run(how, 2);
            ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        });
    }
}

#[test]
fn a_sleep_takes_one_write() {
    check(4, || {
        let sleeper = Sleeper::new();
        let ringer = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || {
                sleeper.submit();
                sleeper.submit();
            })
        };
        let sleeps = sleeper.run(SleepKind::Polling, 2);
        ringer.join().unwrap();
        let writes = sleeper.eventfd.lock().unwrap().writes;
        assert!(writes <= sleeps, "{writes} writes for {sleeps} sleeps");
    });
}

/// The sleeper wakes up without a ring, as by a timeout, and works.
#[test]
fn an_awake_thread_takes_no_write() {
    check(4, || {
        let sleeper = Sleeper::new();
        assert!(sleeper.wakeup.take_rung() && sleeper.wakeup.begin_sleep(SleepKind::Polling));
        sleeper.wakeup.wake_up();
        let ringer = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.submit())
        };
        ringer.join().unwrap();
        assert_eq!(sleeper.eventfd.lock().unwrap().writes, 0);
    });
}

/// Submits a job. If its ring has to wake the sleeper, the thread is suspended before it does, and another ring
/// happens.
fn submit_while_suspended(sleeper: &Sleeper) {
    let mut suspended = false;
    sleeper.wakeup.ring(|_| {
        suspended = true;
        sleeper.submit();
    });
    if !suspended {
        sleeper.submit();
    }
}

#[test]
fn a_suspended_ringer_delays_no_other_ring() {
    for how in [SleepKind::Polling, SleepKind::Parked] {
        check(4, move || {
            let sleeper = Sleeper::new();
            let ringer = {
                let sleeper = Arc::clone(&sleeper);
                thread::spawn(move || submit_while_suspended(&sleeper))
            };
            sleeper.run(how, 1);
            ringer.join().unwrap();
        });
    }
}

/// A ringer that was suspended continues during a later sleep, while the ringer of that sleep is suspended.
#[test]
fn a_late_ringer_does_not_answer_for_a_later_sleep() {
    check(3, || {
        let sleeper = Sleeper::new();
        let late = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.submit())
        };
        let suspended = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || submit_while_suspended(&sleeper))
        };
        sleeper.run(SleepKind::Polling, 2);
        late.join().unwrap();
        suspended.join().unwrap();
    });
}
