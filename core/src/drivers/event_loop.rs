//! Runs futures on the thread of an event loop, which writes their commands and reads their replies.
//!
//! The loop watches one descriptor, which the bindings register (`ffi::driver`), and calls
//! [`LoopDriver::read_available`] when it is readable. The commands of one turn are written together at its end, or
//! when there are enough for the server to begin. If the previous turn had only one caller, they are written
//! immediately.

use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::poller::Poller;
use super::reactor::{Driving, Reactor, Submitted, take_submitted};
use crate::runtime::{Exclusive, Made, Visitor, WakeHandle, has_stack_space};

/// The number of the wake-up descriptor among the watched descriptors.
const WAKE: u64 = u64::MAX;
/// The number of the descriptor that the loop adds.
const GUEST: u64 = u64::MAX - 1;

/// The futures and connections of one event loop.
pub(crate) struct LoopDriver<T> {
    poller: Arc<Poller>,
    waker: Arc<WakeHandle>,
    work: Made<Exclusive<LoopWork<T>>>,
}

/// Polls the woken futures, and appends the results.
type PollWoken<T> = Box<dyn FnMut(&mut Context<'_>, &mut Vec<T>) + Send>;

/// The state that only the loop's thread uses.
struct LoopWork<T> {
    poll_woken: PollWoken<T>,
    /// The connections in use.
    reactor: Reactor,
    /// The commands that are not written yet.
    submitted: Submitted,
}

/// The number of polls before the other callbacks of the loop run.
const MAX_POLLS: usize = 8;

impl<T> LoopDriver<T> {
    /// Creates the driver of this thread's loop. Returns an error if its stack is almost full, or on systems without
    /// epoll.
    pub(crate) fn new(poll_woken: PollWoken<T>) -> io::Result<Self> {
        if !has_stack_space() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let (poller, waker) = (Arc::new(Poller::new()?), WakeHandle::of_loop()?);
        poller.add(waker.descriptor(), WAKE)?;
        let reactor = Reactor::watched_by(Arc::clone(&poller));
        let work = LoopWork { poll_woken, reactor, submitted: Submitted::default() };
        Ok(Self { poller, waker, work: Made::new(Exclusive::new(work)) })
    }

    /// The descriptor to watch.
    pub(crate) fn descriptor(&self) -> i32 {
        self.poller.descriptor()
    }

    /// Adds a descriptor of the loop, which is watched too.
    pub(crate) fn add(&self, descriptor: i32) -> io::Result<()> {
        self.poller.add(descriptor, GUEST)
    }

    /// Starts new futures. Returns the results so far, and false if [`LoopDriver::flush`] must write the commands.
    pub(crate) fn start_futures(&self) -> (Vec<T>, bool) {
        let begun = self.with(|work, waker| {
            // After a blocked turn of the loop, it may be a timer that woke a future whose reply is unread.
            if waker.take_rung() {
                work.read_replies();
            }
            let done = work.poll(waker);
            if work.submitted.is_due() {
                work.write();
            }
            // This loop may be blocked before it flushes.
            work.submitted.supervise();
            (done, work.submitted.is_empty())
        });
        begun.unwrap_or((Vec::new(), true))
    }

    /// Writes the commands of this turn of the loop.
    pub(crate) fn flush(&self) {
        self.with(|work, _| work.write());
    }

    /// Reads the available replies, and polls the futures that wait for them. Returns the results, and whether the
    /// descriptor that the loop added is readable.
    pub(crate) fn read_available(&self) -> (Vec<T>, bool) {
        let looked = self.with(|work, waker| {
            // From now on, replies that are read here wake futures without a system call.
            waker.take_rung();
            // The poller is asked only if there is not exactly one connection, or if it woke no future. Any other
            // readable descriptor makes the loop look again.
            let is_read = work.reactor.read_single() && waker.is_rung();
            let mut guest = false;
            if !is_read {
                // What is left makes the loop look again, because the poller stays readable.
                work.reactor.read_ready(|number| match number {
                    WAKE => waker.clear(),
                    GUEST => guest = true,
                    _ => {}
                });
            }
            work.submitted.begin_period();
            let done = work.poll(waker);
            // Commands that follow from a reply are not held back.
            work.write();
            (done, guest)
        });
        looked.unwrap_or_default()
    }

    /// Uses the state. Returns `None` in a forked child, or if this thread already does, which then looks again.
    fn with<A>(&self, act: impl FnOnce(&mut LoopWork<T>, &Arc<WakeHandle>) -> A) -> Option<A> {
        let used = self.work.ours()?.try_with(Visitor::Thread, |work| act(work, &self.waker));
        if used.is_none() {
            self.waker.ring();
        }
        used.map(|(result, _)| result)
    }
}

impl<T> LoopWork<T> {
    /// Polls the woken futures. Returns the results.
    fn poll(&mut self, handle: &Arc<WakeHandle>) -> Vec<T> {
        let waker = Waker::from(Arc::clone(handle));
        let mut done = Vec::new();
        let driving = Driving::start(true, false);
        let asleep = (0..MAX_POLLS).any(|_| {
            handle.take_rung();
            (self.poll_woken)(&mut Context::from_waker(&waker), &mut done);
            handle.begin_sleep()
        });
        if !asleep {
            // The other callbacks of the loop run first.
            handle.look_later();
        }
        let submitted = take_submitted();
        if !submitted.is_empty() {
            self.submitted.count();
        }
        submitted.iter().for_each(|connection| self.submitted.add(connection));
        drop(driving);
        done
    }

    /// Reads the available replies. What is left makes the loop look again, because the poller stays readable.
    fn read_replies(&self) {
        if !self.reactor.read_single() {
            self.reactor.read_ready(|_| ());
        }
    }

    fn write(&mut self) {
        self.reactor.write(self.submitted.take());
    }
}

/// The background thread writes the last commands, and reads the replies.
impl<T> Drop for LoopWork<T> {
    fn drop(&mut self) {
        self.submitted.delegate();
    }
}
