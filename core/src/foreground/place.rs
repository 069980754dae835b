//! The connections that a wait has asked, and where it has the seat.

use std::sync::Arc;

use super::here::Here;
use super::way::{Seat, Way};

/// One connection that was asked while a thread waits.
pub(super) struct Place {
    pub(super) way: Arc<dyn Way>,
    seat: Option<Seat>,
    /// It was asked something since it last took too long.
    is_quick: bool,
}

impl Place {
    /// Writes what was asked, if this thread may read the answer; else both are somebody else's, who does it for all at once.
    fn turn(&mut self) {
        self.seat = self.seat.or_else(|| self.way.sit());
        self.is_quick = true;
        // Where another thread is in it, nobody can say when this one may leave.
        if self.seat.is_none() || !self.way.turn(false) {
            self.way.help();
        }
    }

    /// What to sleep on. A seat at which nothing is to come is somebody else's to take.
    pub(super) fn descriptor(&mut self) -> Option<i32> {
        let seat = self.seat?;
        let descriptor = self.way.descriptor(seat).filter(|_| self.way.is_open());
        if descriptor.is_none() {
            self.leave();
        }
        descriptor
    }

    /// Waits for what comes there, and for nothing else; false where it has to be slept on.
    pub(super) fn receive(&mut self) -> bool {
        let seat = self.seat.filter(|_| self.is_quick && self.way.is_open());
        self.is_quick = seat.is_some_and(|seat| self.way.receive(seat));
        self.is_quick
    }

    fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.way.leave(seat);
        }
    }
}

/// The connections that this wait has asked.
#[derive(Default)]
pub(super) struct Places(pub(super) Vec<Place>);

impl Places {
    /// Writes what was asked since the last turn.
    pub(super) fn turn(&mut self) {
        for way in Here::take_asked() {
            if let Some(known) = self.0.iter_mut().find(|place| Arc::ptr_eq(&place.way, &way)) {
                known.turn();
            } else {
                let mut place = Place { way, seat: None, is_quick: true };
                place.turn();
                self.0.push(place);
            }
        }
    }
}

/// What was asked last goes out, whatever becomes of the wait.
impl Drop for Places {
    fn drop(&mut self) {
        self.turn();
        self.0.iter_mut().for_each(Place::leave);
    }
}
