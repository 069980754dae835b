//! The threads that write commands to the connections and read the replies.
//!
//! Each driver takes the same steps. It submits commands while it polls futures ([`submit`]). It then writes the
//! commands of all these futures together. Finally it reads the replies, for all callers, if it has the reader role of
//! the connection. A [`Reactor`](reactor::Reactor) has the connections of one driver.
//!
//! - A [`blocking_thread`] drives one future, and sleeps until a reply arrives.
//! - An [`event_loop`] drives its futures in its turns.
//! - A [`tokio_runtime`] has one task that drives the connections of the other tasks.
//! - The background thread drives the connections of all other callers, and does what no driver does in time. Each
//!   connection has a task there (`node::redis::connection::task`).
//!
//! Drivers know a connection as something [`Driven`], not what its commands mean.

mod blocking_thread;
mod event_loop;
mod poller;
mod reactor;
mod task_state;
#[cfg(all(test, unix))]
mod tests;
mod tokio_runtime;

use std::sync::Arc;

pub use blocking_thread::{about_to_ask, about_to_wait, wait};
pub(crate) use event_loop::LoopDriver;
pub(crate) use poller::Poller;
pub(crate) use tokio_runtime::{RuntimeDriver, flush};

/// Has a command written that was added to the queue of a connection. The driver of this thread writes it, otherwise
/// the background thread. `runtime` is the driver of the client's runtime.
pub(crate) fn submit(connection: &Arc<dyn Driven>, runtime: Option<&RuntimeDriver>) {
    let is_driven =
        reactor::submit(connection) || runtime.is_some_and(|runtime| runtime.submit(connection));
    if !is_driven {
        connection.wake_task();
    }
}

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
    fn read_available(&self) -> bool;

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

    fn read_available(&self) -> bool {
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
