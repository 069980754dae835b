//! The connections that an event loop uses, which it watches as one descriptor.

use std::sync::Arc;

use super::poller::{MAX_READY, Poller};
use super::used::Used;
use super::way::{Read, Way};

/// The number of commands that are written before the end of a turn, so that the server works on them meanwhile. With all
/// of them at the end, loop and server would wait for each other, which costs a third to a half of the throughput on two
/// cores. On one core, smaller writes cost more system calls.
pub(crate) const ENOUGH: usize = 32;

/// The connections that one event loop uses, by their numbers in its poller.
pub(crate) struct Reactor {
    poller: Arc<Poller>,
    used: Vec<Option<Used>>,
}

impl Reactor {
    /// Creates one without connections.
    pub(crate) fn new(poller: Arc<Poller>) -> Self {
        Self { poller, used: Vec::new() }
    }

    /// Adds a connection to which a command was submitted. The loop reads the reply, if it may.
    pub(crate) fn note(&mut self, way: Arc<dyn Way>) {
        let known = self.used.iter_mut().flatten().find(|used| Arc::ptr_eq(&used.way, &way));
        if let Some(used) = known {
            used.unwritten = true;
            return;
        }
        // Frees the numbers of connections that are not used any more.
        let over = |used: &Used| !used.unwritten && used.descriptor().is_none();
        for used in self.used.iter_mut().filter(|used| used.as_ref().is_some_and(over)) {
            *used = None;
        }
        let new = Some(Used::new(way));
        match self.used.iter_mut().find(|used| used.is_none()) {
            Some(free) => *free = new,
            None => self.used.push(new),
        }
    }

    /// Whether a submitted command may not be written yet.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.used.iter().flatten().any(|used| used.unwritten)
    }

    /// Has the background thread write what is not written at its next tick, because this loop may be blocked by then.
    pub(crate) fn supervise(&self) {
        let unwritten = self.used.iter().flatten().filter(|used| used.unwritten);
        unwritten.for_each(|used| used.way.supervise());
    }

    /// Writes all submitted commands.
    pub(crate) fn write(&mut self) {
        for (at, used) in self.used.iter_mut().enumerate() {
            if let Some(used) = used {
                // The loop keeps the role as long as it sends commands.
                used.write(|way, role| way.watch(role, &self.poller, at as u64));
            }
        }
    }

    /// Has the background thread read until the next command.
    pub(crate) fn release_roles(&mut self) {
        self.used.iter_mut().flatten().for_each(Used::release_role);
    }

    /// Removes all connections. The background thread reads the outstanding replies.
    pub(crate) fn clear(&mut self) {
        self.used.clear();
    }

    /// Reads the available replies of the connection with this number.
    pub(crate) fn read(&mut self, number: u64) {
        if let Some(used) = self.used(number) {
            used.unwritten &= used.way.read() == Read::Busy;
        }
    }

    /// Reads the only connection. Returns false if there are several, or if another thread has its reader role.
    pub(crate) fn read_only(&mut self) -> bool {
        let alone = matches!(&self.used[..], [Some(only)] if only.role().is_some());
        if alone {
            self.read(0);
        }
        alone
    }

    /// Reads the available replies, for a loop that is notified once. Returns true if there may be more.
    pub(crate) fn read_all(&mut self) -> bool {
        // With one connection, the poller need not be asked.
        if self.used.len() == 1 {
            return self.read_once(0);
        }
        let (mut found, mut more) = (0, false);
        for number in self.poller.ready() {
            found += 1;
            more |= self.read_once(number);
        }
        more || found == MAX_READY
    }

    fn read_once(&mut self, number: u64) -> bool {
        let Some(used) = self.used(number) else { return false };
        let read = used.way.read();
        match read {
            // The thread inside may be suspended.
            Read::Busy => used.way.delegate(),
            Read::All | Read::More => used.unwritten = false,
        }
        read == Read::More
    }

    fn used(&mut self, number: u64) -> Option<&mut Used> {
        self.used.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }
}
