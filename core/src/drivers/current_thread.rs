//! Whether this thread drives the connections of the futures that it polls.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::reactor::{Connections, Submitted};
use crate::node::Connection;
use crate::runtime::{timers, with_local};

/// The state of one thread.
#[derive(Default)]
struct Thread {
    /// The number of [`Driving`] guards.
    guards: u32,
    /// The connections to which commands were submitted since the last write.
    submitted: Submitted,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::default();
}

/// Records that a command was submitted to a connection. Returns true if this thread writes it.
pub(super) fn submit(connection: &Arc<Connection>) -> bool {
    let drives = with_local(&THREAD, |thread| {
        let drives = thread.guards > 0;
        if drives {
            thread.submitted.add(connection);
        }
        drives
    });
    drives.unwrap_or(false)
}

/// Takes the connections to which commands were submitted since the last call.
pub(super) fn take_submitted() -> Connections {
    with_local(&THREAD, |thread| thread.submitted.take()).unwrap_or_default()
}

/// Declares, until it is dropped, that this thread writes the commands that are submitted on it.
pub(super) struct Driving {
    /// Whether the thread kept timers before.
    kept_timers: bool,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Driving {
    /// Begins. `keeps_timers` is whether the thread also keeps the timers of the futures that it polls.
    pub(super) fn begin(keeps_timers: bool) -> Self {
        with_local(&THREAD, |thread| thread.guards += 1);
        Self { kept_timers: timers::keep(keeps_timers), _thread: PhantomData }
    }
}

/// The last commands are always written. The background thread reads the replies.
impl Drop for Driving {
    fn drop(&mut self) {
        timers::keep(self.kept_timers);
        let last = with_local(&THREAD, |thread| {
            thread.guards -= 1;
            if thread.guards == 0 { thread.submitted.take() } else { Connections::new() }
        });
        for connection in last.into_iter().flatten() {
            connection.write();
            connection.delegate();
        }
    }
}

/// Declares, until it is dropped, that this thread is parked. The background thread writes its commands and keeps its
/// timers.
pub(super) struct Parked {
    guards: u32,
    kept_timers: bool,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Parked {
    /// Passes the thread's commands and timers to the background thread, now and until the end.
    pub(super) fn begin() -> Self {
        let before = with_local(&THREAD, |thread| {
            (std::mem::take(&mut thread.guards), std::mem::take(&mut thread.submitted))
        });
        let (guards, mut submitted) = before.unwrap_or_default();
        submitted.delegate();
        let kept_timers = timers::keep(false);
        timers::pass_on();
        Self { guards, kept_timers, _thread: PhantomData }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        with_local(&THREAD, |thread| thread.guards = self.guards);
        timers::keep(self.kept_timers);
    }
}
