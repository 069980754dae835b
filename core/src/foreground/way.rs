//! A connection, as the threads and event loops that wait for its replies use it.

use std::sync::Arc;
use std::time::Duration;

use super::poller::Poller;

/// The maximum time of [`Way::receive`].
pub(crate) const RECEIVE: Duration = Duration::from_millis(40);

/// The right to read a connection for all callers. One thread or loop at a time has it.
#[derive(Clone, Copy)]
pub(crate) struct ReaderRole(pub(crate) u64);

/// The result of [`Way::read`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Another thread uses the connection.
    Busy,
    /// Everything was read.
    All,
    /// More bytes may be available.
    More,
}

/// A connection for waiting threads. No function waits for a thread that uses it. Only a change of the descriptor that a
/// loop watches takes a mutex, for one system call.
pub(crate) trait Way: Send + Sync {
    /// Writes the submitted commands. Returns false if another thread uses the connection, which then writes them.
    fn write(&self) -> bool;

    /// Writes the submitted commands, and reads the available replies.
    fn read(&self) -> Read;

    /// Has the background thread write the submitted commands and read all outstanding replies.
    fn delegate(&self);

    /// Has the background thread write the submitted commands if this thread has not written them at its next tick.
    fn supervise(&self);

    /// Whether replies are outstanding.
    fn is_open(&self) -> bool;

    /// Takes the reader role, if it is free and threads may read.
    fn take_role(&self) -> Option<ReaderRole>;

    /// Returns the descriptor to wait on. Returns `None` if the role has ended.
    fn descriptor(&self, role: ReaderRole) -> Option<i32>;

    /// Blocks in the socket until bytes arrive, and reads them. This takes one system call less than to wait on the
    /// descriptor. The thread cannot be woken meanwhile, for [`RECEIVE`] at most. Returns false if nothing was read.
    fn receive(&self, role: ReaderRole) -> bool {
        let _ = role;
        false
    }

    /// Ends the role. The background thread reads the outstanding replies.
    fn release_role(&self, role: ReaderRole);

    /// Has the loop with the role watch the connection under a number. Returns false if the role has ended, or if the
    /// descriptor cannot be watched.
    fn watch(&self, role: ReaderRole, poller: &Arc<Poller>, number: u64) -> bool;
}
