//! The connections to which a driver must write, and when it must.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::node::Connection;

/// Connections with commands that are not written yet.
pub(super) type Connections = SmallVec<[Arc<Connection>; 2]>;

/// The number of callers whose commands are written before the end of a turn, so that the server works on them meanwhile.
/// With all of them at the end, loop and server would wait for each other, which costs a third to a half of the throughput on two
/// cores. On one core, smaller writes cost more system calls.
pub(super) const MAX_UNWRITTEN: usize = 32;

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
    /// Adds a connection.
    pub(super) fn add(&mut self, connection: &Arc<Connection>) {
        if !self.connections.iter().any(|known| Arc::ptr_eq(known, connection)) {
            self.connections.push(Arc::clone(connection));
        }
    }

    /// Counts a caller, whose commands may be for several connections.
    pub(super) fn count(&mut self) {
        self.unwritten += 1;
        self.recent.0 += 1;
    }

    /// Whether no connection has unwritten commands.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether the commands must not wait for those of other callers: there is only one caller, or there are enough.
    pub(super) fn is_due(&self) -> bool {
        (self.recent.0 <= 1 && self.recent.1 <= 1) || self.unwritten >= MAX_UNWRITTEN
    }

    /// Returns the number of callers since the last read.
    pub(super) fn recent(&self) -> usize {
        self.recent.0
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

    /// Takes the connections, to write to them.
    pub(super) fn take(&mut self) -> Connections {
        self.unwritten = 0;
        std::mem::take(&mut self.connections)
    }

    /// Has the background thread write the commands and read the replies.
    pub(super) fn delegate(&mut self) {
        self.take().iter().for_each(|connection| connection.delegate());
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
