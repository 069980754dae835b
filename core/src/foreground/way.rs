//! A connection, as whoever waits for it sees it.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::Arc;
use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::poller::Poller;

/// So long [`Way::receive`] takes at most.
pub(crate) const RECEIVE: Duration = Duration::from_millis(40);

/// The right to read a connection for all, for one thread at a time.
#[derive(Clone, Copy)]
pub(crate) struct Seat(pub(crate) u64);

/// A connection as a thread sees it that waits.
pub(crate) trait Way: Send + Sync {
    /// Writes what was asked, and reads what is there if that is wanted. It never waits: false where another thread has it,
    /// which writes that in a moment.
    fn turn(&self, read: bool) -> bool;

    /// Somebody else reads what this thread has asked.
    fn help(&self);

    /// It is written in a moment; somebody else looks whether it was.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn look_after(&self);

    /// Whether what was read last may not have been all.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn has_more(&self) -> bool;

    /// Whether answers are still to come.
    fn is_open(&self) -> bool;

    /// Takes the seat, if it is free and threads may read it.
    fn sit(&self) -> Option<Seat>;

    /// What to sleep on; `None`: it is not this seat's any more.
    fn descriptor(&self, seat: Seat) -> Option<i32>;

    /// Waits in this seat for what comes, and reads it: at the cost of one system call, where to sleep until it is there and
    /// to read it then is two. It hears no bell meanwhile, and ends after [`RECEIVE`] in any case. False: nothing came, or it
    /// cannot be done now.
    fn receive(&self, seat: Seat) -> bool {
        let _ = seat;
        false
    }

    /// This thread waits there no more: somebody else reads what is still to come.
    fn leave(&self, seat: Seat);

    /// Has a loop that has the seat watch it, by a number; false if it is not this seat's any more, or cannot be watched.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn watch(&self, seat: Seat, poller: &Arc<Poller>, number: u64) -> bool;
}
