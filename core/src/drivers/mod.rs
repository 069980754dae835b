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
mod driven;
mod event_loop;
mod poller;
mod reactor;
mod task_state;
#[cfg(all(test, unix))]
mod tests;
mod tokio_runtime;

use std::sync::Arc;

pub use blocking_thread::{about_to_ask, about_to_wait, wait};
pub(crate) use driven::{Driven, ReaderRole};
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
