//! The connections that one driver uses: their reader roles, which have commands to write, and whether this thread
//! does.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use super::poller::{MAX_READY, Poller};
use super::{Driven, ReaderRole};
use crate::runtime::{timers, with_local};

/// The connections of one driver. The position of a connection is its number.
#[derive(Default)]
pub(super) struct Reactor {
    /// Watches the connections, for an event loop or a runtime.
    poller: Option<Arc<Poller>>,
    used: Vec<Used>,
}

impl Reactor {
    pub(super) fn watched_by(poller: Arc<Poller>) -> Self {
        Self { poller: Some(poller), used: Vec::new() }
    }

    /// Writes the submitted commands. The driver reads the replies, if it may.
    pub(super) fn write(&mut self, submitted: Connections) {
        for connection in submitted {
            let known = |used: &Used| is_same(&used.connection, &connection);
            let known = self.used.iter().position(known);
            // A connection of a client that is gone leaves its number to another one.
            let number = known.or_else(|| {
                let is_free = |used: &Used| Arc::strong_count(&used.connection) == 1;
                let free = self.used.iter().position(is_free)?;
                self.used[free] = Used::new(Arc::clone(&connection));
                Some(free)
            });
            let number = number.unwrap_or_else(|| {
                self.used.push(Used::new(connection));
                self.used.len() - 1
            });
            let used = &mut self.used[number];
            let poller = self.poller.as_ref().map(|poller| (poller, number as u64));
            used.role = used.connection.submit(used.role, poller);
        }
    }

    /// Removes all connections. The background thread reads the outstanding replies.
    pub(super) fn clear(&mut self) {
        self.used.clear();
    }

    /// Returns the numbers and descriptors of the connections to wait for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (u64, i32)> {
        let awaited = |(number, used): (usize, &Used)| Some((number as u64, used.descriptor()?));
        self.used.iter().enumerate().filter_map(awaited)
    }

    /// Reads the available replies of the connection with this number. Returns whether there may be more.
    pub(super) fn read_available(&self, number: u64) -> bool {
        let used = usize::try_from(number).ok().and_then(|number| self.used.get(number));
        used.is_some_and(|used| used.connection.read_available())
    }

    /// Reads the only connection. Returns false if there are several, or if another thread has its reader role.
    pub(super) fn read_single(&self) -> bool {
        let is_alone = matches!(&self.used[..], [only] if only.descriptor().is_some());
        if is_alone {
            self.read_available(0);
        }
        is_alone
    }

    /// Reads the available replies, for a driver that is notified once. Returns true if there may be more.
    pub(super) fn read_all(&self) -> bool {
        // With one connection, the poller need not be asked.
        if self.used.len() == 1 { self.read_available(0) } else { self.read_ready(|_| ()) }
    }

    /// Reads all readable connections. `other` gets the numbers of the other descriptors that are readable. Returns
    /// true if there may be more.
    pub(super) fn read_ready(&self, mut other: impl FnMut(u64)) -> bool {
        let (mut found, mut more) = (0, false);
        for number in self.poller.iter().flat_map(|poller| poller.ready()) {
            found += 1;
            more |= self.read_available(number);
            other(number);
        }
        more || found == MAX_READY
    }
}

struct Used {
    connection: Arc<dyn Driven>,
    role: Option<ReaderRole>,
}

impl Used {
    fn new(connection: Arc<dyn Driven>) -> Self {
        Self { connection, role: None }
    }

    /// Returns the descriptor to wait for, if it has the reader role.
    fn descriptor(&self) -> Option<i32> {
        self.connection.descriptor(self.role?)
    }
}

/// The background thread reads the outstanding replies.
impl Drop for Used {
    fn drop(&mut self) {
        if self.descriptor().is_some() {
            self.connection.delegate();
        }
    }
}

/// Whether both are one connection. The tables of their methods may differ, and are not compared.
fn is_same(one: &Arc<dyn Driven>, other: &Arc<dyn Driven>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Connections with commands that are not written yet.
pub(super) type Connections = SmallVec<[Arc<dyn Driven>; 2]>;

/// The number of callers whose commands are written before the end of a turn, so that the server works on them
/// meanwhile. With all of them at the end, loop and server would wait for each other, which costs a third to a half of
/// the throughput on two cores. On one core, smaller writes cost more system calls.
const MAX_UNWRITTEN: usize = 32;

/// The connections with unwritten commands, and the number of callers that submitted them.
#[derive(Default)]
pub(super) struct Submitted {
    connections: Connections,
    /// The number of callers since the last write.
    unwritten: usize,
    /// The number of callers since the last read, and in the period before.
    recent: (usize, usize),
}

impl Submitted {
    pub(super) fn add(&mut self, connection: &Arc<dyn Driven>) {
        if !self.connections.iter().any(|known| is_same(known, connection)) {
            self.connections.push(Arc::clone(connection));
        }
    }

    /// Counts a caller, whose commands may be for several connections.
    pub(super) fn count(&mut self) {
        self.unwritten += 1;
        self.recent.0 += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether the commands must not wait for those of other callers: there is only one caller, or there are enough.
    pub(super) fn is_due(&self) -> bool {
        (self.recent.0 <= 1 && self.recent.1 <= 1) || self.unwritten >= MAX_UNWRITTEN
    }

    /// Begins a period, because the driver reads. A period without callers does not count.
    pub(super) fn begin_period(&mut self) {
        if self.recent.0 > 0 {
            self.recent = (0, self.recent.0);
        }
    }

    /// Has the background thread write what is still unwritten at its next tick, because this driver may be blocked.
    pub(super) fn supervise(&self) {
        self.connections.iter().for_each(|connection| connection.supervise());
    }

    pub(super) fn take(&mut self) -> Connections {
        self.unwritten = 0;
        std::mem::take(&mut self.connections)
    }

    /// Has the background thread write the commands and read the replies.
    pub(super) fn delegate(&mut self) {
        self.take().iter().for_each(|connection| connection.delegate());
    }
}

/// What one thread does for the futures that it polls.
#[derive(Default)]
struct ReactorThread {
    /// Whether it writes the commands that are submitted on it.
    drives: bool,
    /// The connections to which commands were submitted since the last write.
    submitted: Submitted,
}

thread_local! {
    static THREAD: RefCell<ReactorThread> = RefCell::default();
}

/// Records that a command was submitted to a connection. Returns true if this thread writes it.
pub(super) fn submit(connection: &Arc<dyn Driven>) -> bool {
    let drives = with_local(&THREAD, |thread| {
        if thread.drives {
            thread.submitted.add(connection);
        }
        thread.drives
    });
    drives.unwrap_or(false)
}

/// Takes the connections to which commands were submitted on this thread since the last call.
pub(super) fn take_submitted() -> Connections {
    with_local(&THREAD, |thread| thread.submitted.take()).unwrap_or_default()
}

/// Declares, until it is dropped, whether this thread writes the commands that are submitted on it, and whether it
/// keeps the timers of the futures that it polls. Several on one thread are dropped in the reverse order.
pub(super) struct Driving {
    drove: bool,
    kept_timers: bool,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Driving {
    pub(super) fn start(drives: bool, keeps_timers: bool) -> Self {
        let drove = with_local(&THREAD, |thread| std::mem::replace(&mut thread.drives, drives));
        if !drives {
            take_submitted().iter().for_each(|connection| connection.delegate());
        }
        Self {
            drove: drove.unwrap_or_default(),
            kept_timers: timers::set_kept(keeps_timers),
            _thread: PhantomData,
        }
    }
}

/// The last commands are always written. The background thread reads the replies.
impl Drop for Driving {
    fn drop(&mut self) {
        timers::set_kept(self.kept_timers);
        with_local(&THREAD, |thread| thread.drives = self.drove);
        if !self.drove {
            take_submitted().iter().for_each(|connection| connection.write_and_delegate());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_due_for_one_caller_or_for_many() {
        let mut submitted = Submitted::default();
        let mut is_due = || {
            submitted.count();
            submitted.is_due()
        };
        assert!(is_due() && !is_due(), "only the first caller writes at once");
        assert!((3..MAX_UNWRITTEN).all(|_| !is_due()) && is_due());
        submitted.take();
        submitted.begin_period();
        submitted.begin_period();
        submitted.count();
        assert!(!submitted.is_due(), "a period without callers does not count");
        submitted.begin_period();
        submitted.count();
        assert!(submitted.is_due(), "there was one caller in the period before");
    }
}
