//! The commands of a runtime's tasks, on their way to the connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use smallvec::SmallVec;
use tokio::runtime::{Handle, Id};

use super::super::reactor::{ENOUGH, Reactor};
use super::super::stack::is_roomy;
use super::super::way::Way;
use crate::clock::{Instant, machine};
use crate::runtime::{Exclusive, Visitor, fork_generation};

/// The state that the tasks share with the task that reads.
pub(super) struct Shared {
    runtime: Id,
    /// The process of the runtime.
    pub(super) generation: u32,
    /// `None` once the reader has ended.
    pub(super) asked: Mutex<Option<Asked>>,
    /// A thread that finds it in use has the reader woken afterwards.
    reactor: Exclusive<Reactor>,
    /// Wakes the reader.
    pub(super) waker: AtomicWaker,
}

#[derive(Default)]
pub(super) struct Asked {
    /// The connections with unwritten commands.
    pub(super) ways: SmallVec<[Arc<dyn Way>; 2]>,
    /// The number of commands since the last write.
    pub(super) unwritten: usize,
    /// The number since the reader's last read, and in the period before.
    pub(super) count: (usize, usize),
    /// When the first command after the reader's last turn was submitted.
    unseen_since: Option<Instant>,
}

/// A runtime whose reader did not run for this long is blocked, or no thread drives it.
const LONGEST_TURN: Duration = Duration::from_millis(100);

impl Shared {
    /// Creates the state of this runtime.
    pub(super) fn of(runtime: &Handle, reactor: Reactor) -> Self {
        Self {
            runtime: runtime.id(),
            generation: fork_generation(),
            asked: Mutex::new(Some(Asked::default())),
            reactor: Exclusive::new(reactor),
            waker: AtomicWaker::new(),
        }
    }

    /// Whether this is a thread of the runtime, in its own process.
    pub(super) fn is_here(&self) -> bool {
        let here = || Handle::try_current().is_ok_and(|here| here.id() == self.runtime);
        self.generation == fork_generation() && here()
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, Option<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all connections, at the end of the reader.
    pub(super) fn clear(&self) {
        self.with(Reactor::clear);
    }

    /// Uses the connections. Returns `None` if another thread does, which then wakes the reader.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Reactor) -> T) -> Option<T> {
        let (result, visitors) = self.reactor.try_with(Visitor::Task, act)?;
        if visitors.include(Visitor::Task) {
            self.waker.wake();
            if self.asked().is_none() {
                self.clear();
            }
        }
        Some(result)
    }

    /// Writes the commands if they must not wait for others. Otherwise, the reader writes them.
    pub(super) fn flush(&self) {
        if self.generation != fork_generation() {
            return;
        }
        let due = is_roomy() && self.asked().as_ref().is_some_and(Asked::is_due);
        if !due || self.write().is_none() {
            self.waker.wake();
        }
    }

    /// Writes the commands. Returns `None` if another thread uses the connections.
    pub(super) fn write(&self) -> Option<()> {
        self.with(|reactor| {
            let ways = self.asked().as_mut().map(Asked::take);
            ways.into_iter().flatten().for_each(|way| reactor.note(way));
            reactor.write();
        })
    }

    /// Has the background thread write the commands so far, and read the replies.
    pub(super) fn hand_over(&self) {
        let ways = self.asked().as_mut().map(Asked::take);
        ways.into_iter().flatten().for_each(|way| way.delegate());
    }

    /// Ends the reader. The background thread does the remaining work.
    pub(super) fn end(&self) {
        let asked = self.asked().take();
        asked.into_iter().flat_map(|asked| asked.ways).for_each(|way| way.delegate());
    }
}

impl Asked {
    /// Whether there is only one caller, or enough commands.
    fn is_due(&self) -> bool {
        (self.count.0 <= 1 && self.count.1 <= 1) || self.unwritten >= ENOUGH
    }

    /// Whether the reader runs regularly.
    pub(super) fn is_driven(&mut self) -> bool {
        // Not each time, because the clock costs a hundredth of a pair.
        if self.count.0 > 1 && !self.count.0.is_multiple_of(ENOUGH) {
            return true;
        }
        let now = machine::now();
        now.since(*self.unseen_since.get_or_insert(now)) <= LONGEST_TURN
    }

    /// Records a turn of the reader.
    pub(super) fn seen(&mut self) {
        self.unseen_since = None;
    }

    fn take(&mut self) -> SmallVec<[Arc<dyn Way>; 2]> {
        self.unwritten = 0;
        std::mem::take(&mut self.ways)
    }
}
