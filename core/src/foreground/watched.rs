//! The connections that a loop has asked, which it watches as one descriptor.

use std::sync::Arc;

use super::poller::{MOST, Poller};
use super::way::{Seat, Way};

/// So much goes out before the turn is over: the server works on it while the loop goes on. All at once would have each wait
/// for the other, which with a core each costs a third to a half of the throughput; 16 cost one core for both twice as much
/// in more writes as these do (5 to 10 %).
pub(crate) const ENOUGH: usize = 32;

/// The connections that were asked so far, each with a number of its own.
pub(crate) struct Watched {
    poller: Arc<Poller>,
    places: Vec<Option<Place>>,
}

/// A connection that was asked, and its seat there.
struct Place {
    way: Arc<dyn Way>,
    seat: Option<Seat>,
    /// Something was asked that may not be written yet.
    unwritten: bool,
}

impl Watched {
    /// None yet.
    pub(crate) fn by(poller: Arc<Poller>) -> Self {
        Self { poller, places: Vec::new() }
    }

    /// It was asked: this loop reads the answer, if it may.
    pub(crate) fn note(&mut self, way: Arc<dyn Way>) {
        let known = self.places.iter_mut().flatten().find(|place| Arc::ptr_eq(&place.way, &way));
        if let Some(place) = known {
            place.unwritten = true;
            return;
        }
        // Clients come and go: those that are gone make room.
        for place in
            self.places.iter_mut().filter(|place| place.as_ref().is_some_and(Place::is_over))
        {
            *place = None;
        }
        let new = Some(Place { way, seat: None, unwritten: true });
        match self.places.iter_mut().find(|place| place.is_none()) {
            Some(free) => *free = new,
            None => self.places.push(new),
        }
    }

    /// Whether something was asked that may not be written yet.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.places.iter().flatten().any(|place| place.unwritten)
    }

    /// Has the background thread write what is not written within its next tick: this loop may be blocked until then.
    pub(crate) fn look_after(&self) {
        let unwritten = self.places.iter().flatten().filter(|place| place.unwritten);
        unwritten.for_each(|place| place.way.look_after());
    }

    /// Writes whatever was asked.
    pub(crate) fn write(&mut self) {
        for (at, place) in self.places.iter_mut().enumerate() {
            let Some(place) = place else { continue };
            if std::mem::take(&mut place.unwritten) {
                place.sit(&self.poller, at as u64);
                if place.seat.is_none() || !place.way.turn(false) {
                    place.way.help();
                }
            }
        }
    }

    /// Somebody else reads until they are asked again.
    pub(crate) fn leave(&mut self) {
        self.places.iter_mut().flatten().for_each(Place::leave);
    }

    /// Leaves them all: somebody else reads what is still to come.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }

    /// Reads what is there for the connection of this number.
    pub(crate) fn read(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            place.unwritten &= !place.way.turn(true);
        }
    }

    /// Reads what is there for the only connection; false: there are more, or another loop has its seat.
    pub(crate) fn read_only(&mut self) -> bool {
        let alone = matches!(&self.places[..], [Some(only)] if only.seat.is_some());
        if alone {
            self.read(0);
        }
        alone
    }

    /// Reads what is there, where it is told once; true: there may be more.
    pub(crate) fn read_all(&mut self) -> bool {
        // Of one alone there is nothing to find out.
        if self.places.len() == 1 {
            return self.read_once(0);
        }
        let (mut found, mut more) = (0, false);
        for number in self.poller.ready() {
            found += 1;
            more |= self.read_once(number);
        }
        more || found == MOST
    }

    fn read_once(&mut self, number: u64) -> bool {
        let Some(place) = self.place(number) else { return false };
        if place.way.turn(true) {
            place.unwritten = false;
            return place.way.has_more();
        }
        // Another thread has it: nobody can say for how long.
        place.way.help();
        false
    }

    fn place(&mut self, number: u64) -> Option<&mut Place> {
        self.places.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }
}

impl Place {
    /// Keeps the seat, or takes it where it is free. It stays this loop's for as long as that asks.
    fn sit(&mut self, poller: &Arc<Poller>, number: u64) {
        if self.seat.is_some_and(|seat| self.way.descriptor(seat).is_some()) {
            return;
        }
        self.seat = self.way.sit();
        if self.seat.is_some_and(|seat| !self.way.watch(seat, poller, number)) {
            self.leave();
        }
    }

    /// Nothing is to come here, and nothing to go.
    fn is_over(&self) -> bool {
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
