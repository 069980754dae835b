//! What a runtime's tasks have asked, on its way to the connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use smallvec::SmallVec;
use tokio::runtime::{Handle, Id};

use super::super::reactor::{ENOUGH, Reactor};
use super::super::stack::is_roomy;
use super::super::way::Way;
use crate::clock::{Instant, machine};
use crate::runtime::fork_generation;

/// Between the tasks that ask and the one that reads.
pub(super) struct Shared {
    runtime: Id,
    /// Of the process whose runtime it is.
    pub(super) generation: u32,
    /// `None`: the reader looks no more.
    pub(super) asked: Mutex<Option<Asked>>,
    /// Nobody waits to get it: who has it looks again before it goes.
    reactor: Mutex<Reactor>,
    /// Somebody could not get that.
    missed: AtomicBool,
    /// Wakes the reader.
    pub(super) bell: AtomicWaker,
}

#[derive(Default)]
pub(super) struct Asked {
    /// What is not written yet.
    pub(super) ways: SmallVec<[Arc<dyn Way>; 2]>,
    /// How often somebody asked since.
    pub(super) unwritten: usize,
    /// The same since the reader read last, and before.
    pub(super) count: (usize, usize),
    /// When a task asked first after the reader's last turn.
    unseen_since: Option<Instant>,
}

/// A runtime whose reader had no turn for so long is blocked, or no thread drives it.
const LONGEST_TURN: Duration = Duration::from_millis(100);

impl Shared {
    /// Of this runtime; nothing is asked yet.
    pub(super) fn of(runtime: &Handle, reactor: Reactor) -> Self {
        Self {
            runtime: runtime.id(),
            generation: fork_generation(),
            asked: Mutex::new(Some(Asked::default())),
            reactor: Mutex::new(reactor),
            missed: AtomicBool::new(false),
            bell: AtomicWaker::new(),
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

    /// Leaves all connections, once nobody looks any more.
    pub(super) fn clear(&self) {
        self.with(Reactor::clear);
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Reactor>> {
        match self.reactor.try_lock() {
            Ok(reactor) => Some(reactor),
            Err(TryLockError::Poisoned(reactor)) => Some(reactor.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Something to do with the connections; `None`: another thread has them, which wakes the reader afterwards.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Reactor) -> T) -> Option<T> {
        let mut reactor = self.try_lock().or_else(|| {
            // Tried once more: who has it looks afterwards, and may have looked just now.
            self.missed.store(true, Ordering::SeqCst);
            self.try_lock()
        })?;
        let answer = act(&mut reactor);
        drop(reactor);
        if self.missed.swap(false, Ordering::SeqCst) {
            self.bell.wake();
            if self.asked().is_none() {
                self.clear();
            }
        }
        Some(answer)
    }

    /// Writes what was asked if it is to be written at once; else the reader does.
    pub(super) fn flush(&self) {
        if self.generation != fork_generation() {
            return;
        }
        let due = is_roomy() && self.asked().as_ref().is_some_and(Asked::is_due);
        if !due || self.write().is_none() {
            self.bell.wake();
        }
    }

    /// Writes what was asked; `None`: another thread has the connections.
    pub(super) fn write(&self) -> Option<()> {
        self.with(|reactor| {
            let ways = self.asked().as_mut().map(Asked::take);
            ways.into_iter().flatten().for_each(|way| reactor.note(way));
            reactor.write();
        })
    }

    /// Has the background thread write what was asked so far, and read the replies.
    pub(super) fn hand_over(&self) {
        let ways = self.asked().as_mut().map(Asked::take);
        ways.into_iter().flatten().for_each(|way| way.delegate());
    }

    /// Nobody looks any more at what is asked: somebody else does what is still to be done.
    pub(super) fn end(&self) {
        let asked = self.asked().take();
        asked.into_iter().flat_map(|asked| asked.ways).for_each(|way| way.delegate());
    }
}

impl Asked {
    /// Whether one alone asks, or enough have.
    fn is_due(&self) -> bool {
        (self.count.0 <= 1 && self.count.1 <= 1) || self.unwritten >= ENOUGH
    }

    /// Whether the reader has its turns.
    pub(super) fn is_driven(&mut self) -> bool {
        // Not each time: the clock costs a hundredth of a pair.
        if self.count.0 > 1 && !self.count.0.is_multiple_of(ENOUGH) {
            return true;
        }
        let now = machine::now();
        now.since(*self.unseen_since.get_or_insert(now)) <= LONGEST_TURN
    }

    /// The reader has a turn.
    pub(super) fn seen(&mut self) {
        self.unseen_since = None;
    }

    fn take(&mut self) -> SmallVec<[Arc<dyn Way>; 2]> {
        self.unwritten = 0;
        std::mem::take(&mut self.ways)
    }
}
