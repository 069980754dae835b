//! Futures on the thread of an event loop, which reads by itself what they wait for.
//!
//! The loop watches one descriptor, and looks when there is something to read. What is asked in one turn of the loop goes out
//! together: at once where the turn before asked for one thing only, else when the loop's turn is over, or there is enough
//! for the server to begin with.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Waker};

use crate::foreground::{ENOUGH, Here, Poller, Reactor, is_roomy};
use crate::runtime::WakeHandle;
use crate::runtime::fork_generation;

/// The number of the wake-up descriptor among the reactor descriptors.
const WAKE: u64 = u64::MAX;
/// The number of what the loop adds.
const GUEST: u64 = u64::MAX - 1;

/// One event loop's.
pub(super) struct OnLoop<T> {
    poller: Arc<Poller>,
    waker: Arc<WakeHandle>,
    /// Of the process whose loop it is.
    generation: u32,
    work: Mutex<Work<T>>,
}

/// Goes on with futures, and adds what is done.
type Drive<T> = Box<dyn FnMut(&mut Context<'_>, &mut Vec<T>) + Send>;

/// What the loop's thread alone has to do with.
struct Work<T> {
    /// Goes on with all that runs here, and adds what is done.
    drive: Drive<T>,
    /// The connections that were asked so far.
    reactor: Reactor,
    /// How many times something was asked since the last look, and how many times before one of the looks before.
    asked: (usize, usize),
    /// So many looks in a row have answered nobody here.
    in_vain: u8,
}

/// So many looks in vain, and somebody else reads until the loop asks again: what comes is for renewals.
const IN_VAIN: u8 = 4;

/// So often it looks again before it goes on with something else.
const AGAIN: usize = 8;

impl<T> OnLoop<T> {
    /// Of this thread's loop; an error if too little of its stack is left for the work of connections.
    pub(super) fn new(drive: Drive<T>) -> io::Result<Self> {
        if !is_roomy() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let (poller, waker) = (Arc::new(Poller::new()?), WakeHandle::of_loop()?);
        poller.add(waker.descriptor(), WAKE)?;
        let reactor = Reactor::new(Arc::clone(&poller));
        let work = Work { drive, reactor, asked: (0, 0), in_vain: 0 };
        Ok(Self { poller, waker, generation: fork_generation(), work: Mutex::new(work) })
    }

    /// What the loop is to watch.
    pub(super) fn descriptor(&self) -> i32 {
        self.poller.descriptor()
    }

    /// The loop's own, to be reactor with it.
    pub(super) fn add(&self, descriptor: i32) -> io::Result<()> {
        self.poller.add(descriptor, GUEST)
    }

    /// Has the loop look, from any thread.
    pub(super) fn ring(&self) {
        self.waker.ring();
    }

    /// What is new begins; false: it is written when the loop's turn is over, by [`OnLoop::flush`].
    pub(super) fn begin(&self) -> (Vec<T>, bool) {
        if !self.is_here() {
            self.ring();
            return (Vec::new(), true);
        }
        let done = self.with(|work, waker| {
            let done = work.poll(waker);
            let alone = work.asked.0 <= 1 && work.asked.1 <= 1;
            if alone || work.asked.0 % ENOUGH == 0 {
                work.reactor.write();
            }
            let written = alone || !work.reactor.is_unwritten();
            if !written {
                work.reactor.supervise();
            }
            (done, written)
        });
        done.unwrap_or((Vec::new(), true))
    }

    /// Writes what this turn of the loop asked.
    pub(super) fn flush(&self) {
        if self.is_here() {
            self.with(|work, _| work.reactor.write());
        }
    }

    /// Reads what is there, and goes on with whatever waits for it: what is done, and whether the loop's own has something.
    pub(super) fn look(&self) -> (Vec<T>, bool) {
        if !self.is_here() {
            return (Vec::new(), false);
        }
        let looked = self.with(|work, waker| {
            // From here on, replies that are read here ring without a system call.
            waker.look();
            let guest = !work.hear(waker) && work.read_all(&self.poller, waker);
            work.note(guest || waker.is_rung());
            if work.asked.0 > 0 {
                work.asked = (0, work.asked.0);
            }
            let done = work.poll(waker);
            // What follows from an answer goes out at once: nobody else of this turn is known to ask.
            work.reactor.write();
            (done, guest)
        });
        looked.unwrap_or_default()
    }

    /// Whether this is its process. Its thread is whichever runs the loop now: a loop may be set up on one and run on another.
    fn is_here(&self) -> bool {
        self.generation == fork_generation()
    }

    /// `None`: this thread is in the middle of it, and comes back to it.
    fn with<A>(&self, act: impl FnOnce(&mut Work<T>, &Arc<WakeHandle>) -> A) -> Option<A> {
        let mut work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(work)) => PoisonError::into_inner(work),
            Err(TryLockError::WouldBlock) => {
                self.ring();
                return None;
            }
        };
        Some(act(&mut work, &self.waker))
    }
}

impl<T> Work<T> {
    /// Goes on with whatever can; what is done.
    fn poll(&mut self, handle: &Arc<WakeHandle>) -> Vec<T> {
        let waker = Waker::from(Arc::clone(handle));
        let mut done = Vec::new();
        let asking = Here::asking();
        let asleep = (0..AGAIN).any(|_| {
            handle.look();
            (self.drive)(&mut Context::from_waker(&waker), &mut done);
            handle.begin_sleep()
        });
        if !asleep {
            // The loop's other callbacks have their turn first.
            handle.look_later();
        }
        for way in Here::take_asked() {
            self.asked.0 += 1;
            self.reactor.note(way);
        }
        drop(asking);
        done
    }

    /// Reads from the only connection, without asking whether it is that which has something to read; false: nobody was
    /// answered. What else there is has the loop look once more.
    fn hear(&mut self, waker: &WakeHandle) -> bool {
        self.reactor.read_only() && waker.is_rung()
    }

    /// Whether the look was of use. Where none is, the loop is woken for leases that are renewed, and has nothing to do with that.
    fn note(&mut self, of_use: bool) {
        self.in_vain = if of_use || self.asked.0 > 0 { 0 } else { self.in_vain + 1 };
        if self.in_vain == IN_VAIN {
            self.in_vain = 0;
            self.reactor.release_roles();
        }
    }

    /// Reads from all that have something to read; whether what the loop added has.
    fn read_all(&mut self, poller: &Poller, waker: &WakeHandle) -> bool {
        let mut guest = false;
        for number in poller.ready() {
            match number {
                WAKE => waker.clear(),
                GUEST => guest = true,
                number => self.reactor.read(number),
            }
        }
        guest
    }
}
