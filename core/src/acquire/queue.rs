//! Callers of one process that want the same keys, in order of arrival. Only a caller that has its turn asks the
//! nodes.
//!
//! A caller has its turn when no earlier caller holds it back in any of its lines. During its first request, it holds
//! back later callers in all of its lines. After a refusal, it does so only in the lines of the keys that others
//! have. It may wait forever for those, and callers that want only the other keys must not wait with it. A caller
//! that waits for its turn does not hold back any other.
//!
//! The queue knows keys and callers, but no nodes. Having a turn does not mean that the lock is free. One mutex for
//! all lines of a client is held only for a look or a change. No waker is called under it, because a waker may run
//! arbitrary code.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use smallvec::SmallVec;

use super::refusal::Refusal;
use crate::clock::Instant;
use crate::keyed::{Key, Keyed};
use crate::node::Taken;

/// The lines of one client's callers, one for each key.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Lines>);

impl Queue {
    /// How many callers there are, whether they ask or wait.
    pub(crate) fn callers(&self) -> usize {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = lines.by_key.values().flat_map(|line| &line.places).map(|place| place.id);
        places.collect::<HashSet<_>>().len()
    }
}

#[derive(Default)]
struct Lines {
    /// Never given twice: a smaller number came earlier, in every line.
    next: u64,
    /// A line goes with its last caller: names that come and go leave nothing.
    by_key: Keyed<Line>,
    /// Whose turn it is not yet, and how to tell them.
    waiting: HashMap<u64, Waiting>,
}

/// A line: most have one caller only, and end with it.
#[derive(Default)]
struct Line {
    places: SmallVec<[Place; 1]>,
    /// What the rounds of its callers found.
    availability: Option<Availability>,
}

/// What the last conclusive round for a key found. Callers of this process that want the same keys share it.
pub(super) struct Availability {
    /// When the round ended.
    pub(super) at: Instant,
    /// `None` if a quorum replied.
    pub(super) no_quorum: Option<NoQuorum>,
}

/// A period in which no quorum of nodes replied.
#[derive(Clone)]
pub(super) struct NoQuorum {
    /// The start of its first round.
    pub(super) since: Instant,
    /// What its last round found.
    pub(super) why: Arc<Refusal>,
}

impl Availability {
    /// Continues the period that `earlier` is in, or begins one at `since`, but not before a quorum last replied.
    pub(super) fn lost(
        earlier: Option<&Self>,
        (since, at): (Instant, Instant),
        why: &Arc<Refusal>,
    ) -> Self {
        let since = match earlier {
            Some(Self { no_quorum: Some(period), .. }) => period.since,
            Some(Self { at, no_quorum: None }) => since.max(*at),
            None => since,
        };
        Self { at, no_quorum: Some(NoQuorum { since, why: Arc::clone(why) }) }
    }
}

/// A caller's place in one line, which is in order of arrival.
struct Place {
    id: u64,
    /// Those behind it in this line are not to ask. Never true of a caller that waits for its turn.
    holds: bool,
}

/// What it takes to let a caller on.
struct Waiting {
    keys: Arc<[String]>,
    /// Which callers it holds back, according to its last round.
    back: Back,
    /// `None` until the first poll, which checks for the turn without being woken.
    waker: Option<Waker>,
}

/// In which lines a caller holds others back while it asks.
#[derive(Clone, Copy)]
enum Back {
    /// In the line of each of its keys.
    All,
    /// In the lines of those keys that others had.
    These(Taken),
}

impl Back {
    /// By the key's place in the caller's own list.
    fn at(self, place: usize) -> bool {
        matches!(self, Self::All) || matches!(self, Self::These(taken) if taken.has(place))
    }
}

/// A place in the line of each key; leaving, in whatever way, lets the next one on.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    keys: Arc<[String]>,
    id: u64,
    /// When the round began that granted the lease.
    granted: Option<Instant>,
}

impl Queue {
    /// Joins the lines of all keys in one step, so that two callers can never wait for each other.
    pub(crate) fn join(self: &Arc<Self>, keys: &Arc<[String]>) -> Ticket {
        let mut lines = self.lines();
        let id = lines.next;
        lines.next += 1;
        for key in Key::each(keys) {
            lines.by_key.entry(key).or_default().places.push(Place { id, holds: false });
        }
        lines.ask_or_wait(id, keys, Back::All);
        drop(lines);
        Ticket { queue: Arc::clone(self), keys: Arc::clone(keys), id, granted: None }
    }

    /// All lines; a panic under their lock leaves them as they were.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Whether no earlier caller holds this caller back.
    fn may_ask(&self, id: u64, keys: &[String]) -> bool {
        // Lines are in order of arrival, which is that of the numbers.
        let earlier = |line: &Line| {
            let held = |place: &Place| place.id < id && place.holds;
            line.places.iter().take_while(|place| place.id < id).any(held)
        };
        !keys.iter().any(|key| self.by_key.get(key.as_str()).is_some_and(earlier))
    }

    /// Sets in which lines the caller holds others back: those for which `whether` returns true.
    fn hold(&mut self, id: u64, keys: &[String], whether: impl Fn(usize) -> bool) {
        for (at, key) in keys.iter().enumerate() {
            let line = self.by_key.get_mut(key.as_str()).into_iter();
            for place in
                line.flat_map(|line| &mut line.places).filter(|place| place.id == id).take(1)
            {
                place.holds = whether(at);
            }
        }
    }

    /// Gives the caller its turn, or has it wait. A waiting caller holds back no other, because it may wait for as
    /// long as another caller's lock lasts.
    fn ask_or_wait(&mut self, id: u64, keys: &Arc<[String]>, back: Back) {
        if self.may_ask(id, keys) {
            self.hold(id, keys, |at| back.at(at));
        } else {
            self.hold(id, keys, |_| false);
            self.waiting.insert(id, Waiting { keys: Arc::clone(keys), back, waker: None });
        }
    }

    /// Gives each caller in these lines that may ask now its turn, and returns the wakers to call.
    fn let_on(&mut self, keys: &[String]) -> Vec<Waker> {
        let mut woken = Vec::new();
        for key in keys {
            let mut at = 0;
            // Up to the first caller that holds back the rest of the line.
            while let Some(place) =
                self.by_key.get(key.as_str()).and_then(|line| line.places.get(at))
                && !place.holds
            {
                at += 1;
                let id = place.id;
                // It asks already, and was refused for other keys than this one.
                let Some(Waiting { keys, back, .. }) = self.waiting.get(&id) else { continue };
                let (keys, back) = (Arc::clone(keys), *back);
                if self.may_ask(id, &keys) {
                    self.hold(id, &keys, |at| back.at(at));
                    woken.extend(self.waiting.remove(&id).and_then(|waiting| waiting.waker));
                    // It may hold back the rest from now on: looked at once more.
                    at -= 1;
                }
            }
        }
        woken
    }
}

impl Ticket {
    /// Whether it is this caller's turn.
    pub(crate) fn asks(&self) -> bool {
        !self.queue.lines().waiting.contains_key(&self.id)
    }

    /// Ends when it is this caller's turn.
    pub(crate) async fn turn(&self) {
        // Looked at and noted under one lock: who lets it on in between wakes it.
        poll_fn(|cx| match self.queue.lines().waiting.get_mut(&self.id) {
            Some(waiting) => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }

    /// The nodes said no, for these keys; none where they said something else: others may ask for the rest.
    pub(crate) fn refused(&self, taken: Taken) {
        let mut lines = self.queue.lines();
        lines.hold(self.id, &self.keys, |at| taken.has(at));
        // If others have all of them, nothing has changed for those behind.
        let woken = if taken.all(self.keys.len()) { Vec::new() } else { lines.let_on(&self.keys) };
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wants to ask once more, in its old place; `taken` are the keys that others had.
    pub(crate) fn again(&self, taken: Taken) {
        // Where the nodes did not even say no, one caller at a time finds out whether they do now.
        let back = if taken == Taken::default() { Back::All } else { Back::These(taken) };
        let mut lines = self.queue.lines();
        lines.ask_or_wait(self.id, &self.keys, back);
        let woken = lines.let_on(&self.keys);
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Leaves with a lease, which a quorum granted in a round that began at `began`.
    pub(super) fn leave(mut self, began: Instant) {
        self.granted = Some(began);
    }

    /// Notes that a quorum of nodes replied.
    pub(super) fn quorum_replied(&self, at: Instant) {
        self.note(|_| Availability { at, no_quorum: None });
    }

    /// Notes that no quorum has replied since this instant.
    pub(super) fn quorum_missing(&self, times: (Instant, Instant), why: &Arc<Refusal>) {
        self.note(|earlier| Availability::lost(earlier, times, why));
    }

    fn note(&self, change: impl Fn(Option<&Availability>) -> Availability) {
        let mut lines = self.queue.lines();
        for key in self.keys.iter() {
            if let Some(line) = lines.by_key.get_mut(key.as_str()) {
                line.availability = Some(change(line.availability.as_ref()));
            }
        }
    }

    /// The current period without a quorum, by the last conclusive round for one of the keys.
    pub(super) fn no_quorum(&self) -> Option<NoQuorum> {
        let lines = self.queue.lines();
        let known = |key: &String| lines.by_key.get(key.as_str())?.availability.as_ref();
        let last = self.keys.iter().filter_map(known).max_by_key(|known| known.at);
        last.and_then(|known| known.no_quorum.clone())
    }

    /// Whether no earlier caller is left in any of its lines.
    pub(crate) fn is_first(&self) -> bool {
        let lines = self.queue.lines();
        let front =
            |key: &String| lines.by_key.get(key.as_str()).and_then(|line| line.places.first());
        self.keys.iter().filter_map(front).all(|place| place.id == self.id)
    }
}

/// Also the way out of an acquire that is dropped, or that has its lease.
impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lines = self.queue.lines();
        if !lines.waiting.is_empty() {
            lines.waiting.remove(&self.id);
        }
        for key in self.keys.iter() {
            let Some(line) = lines.by_key.get_mut(key.as_str()) else { continue };
            line.places.retain(|place| place.id != self.id);
            if line.places.is_empty() {
                lines.by_key.remove(key.as_str());
            } else if let Some(at) = self.granted {
                line.availability = Some(Availability { at, no_quorum: None });
            }
        }
        let woken = lines.let_on(&self.keys);
        drop(lines);
        woken.into_iter().for_each(Waker::wake);
    }
}
