//! A connection that an event loop has asked, and its seat there.

use std::sync::Arc;

use crate::foreground::{Poller, Seat, Way};

/// A connection that was asked.
pub(super) struct Place {
    pub(super) way: Arc<dyn Way>,
    pub(super) seat: Option<Seat>,
    /// Something was asked that may not be written yet.
    pub(super) unwritten: bool,
}

impl Place {
    /// Keeps the seat, or takes it where it is free. It stays this loop's for as long as that asks.
    pub(super) fn sit(&mut self, poller: &Arc<Poller>, number: u64) {
        if self.seat.is_some_and(|seat| self.way.descriptor(seat).is_some()) {
            return;
        }
        self.seat = self.way.sit();
        if self.seat.is_some_and(|seat| !self.way.watch(seat, poller, number)) {
            self.leave();
        }
    }

    /// Nothing is to come here, and nothing to go.
    pub(super) fn is_over(&self) -> bool {
        !self.unwritten && self.seat.is_none_or(|seat| self.way.descriptor(seat).is_none())
    }

    fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.way.leave(seat);
        }
    }
}

/// The loop is over: somebody else reads what is still to come.
impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
        if std::mem::take(&mut self.unwritten) {
            self.way.turn(false);
            self.way.help();
        }
    }
}
