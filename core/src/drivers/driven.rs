//! A connection as its drivers use it.

use std::sync::Arc;

use super::poller::Poller;

/// The right to read a connection for all callers. One driver at a time has it.
#[derive(Clone, Copy)]
pub(crate) struct ReaderRole {
    /// The number of the role, which is never used again.
    pub(crate) number: u64,
    /// The descriptor to wait for.
    pub(crate) descriptor: i32,
}

/// A connection that takes commands, and whose replies one driver at a time reads.
///
/// If two drivers want the reader role, the background thread soon reads for both. No function waits for a thread that
/// uses the connection.
pub(crate) trait Driven: Send + Sync {
    /// Writes the submitted commands of a driver if it reads the replies: it has the reader role, or may take it.
    /// Otherwise the background thread does both, for all callers together. The poller of the reader watches the
    /// connection under a number.
    fn submit(
        &self,
        known: Option<ReaderRole>,
        poller: Option<(&Arc<Poller>, u64)>,
    ) -> Option<ReaderRole>;

    /// Reads the available replies, and writes the submitted commands. Returns whether more may be available.
    fn read(&self) -> bool;

    /// Returns the descriptor to wait for. Returns `None` if the role has ended.
    fn descriptor(&self, role: ReaderRole) -> Option<i32>;

    /// Has the background thread write the submitted commands and read all outstanding replies.
    fn delegate(&self);

    /// Writes the submitted commands, and has the background thread read the replies.
    fn write_and_delegate(&self);

    /// Has the background thread write the submitted commands if this thread has not written them at its next tick.
    fn supervise(&self);

    /// Wakes the connection's task on the background thread, which writes the submitted commands.
    fn wake_task(&self);
}

/// A connection that is never open.
#[cfg(test)]
pub(super) struct IdleConnection;

#[cfg(test)]
impl IdleConnection {
    pub(super) fn shared() -> Arc<dyn Driven> {
        Arc::new(Self)
    }
}

#[cfg(test)]
impl Driven for IdleConnection {
    fn submit(&self, _: Option<ReaderRole>, _: Option<(&Arc<Poller>, u64)>) -> Option<ReaderRole> {
        None
    }

    fn read(&self) -> bool {
        false
    }

    fn descriptor(&self, _: ReaderRole) -> Option<i32> {
        None
    }

    fn delegate(&self) {}

    fn write_and_delegate(&self) {}

    fn supervise(&self) {}

    fn wake_task(&self) {}
}
