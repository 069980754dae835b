//! The rules of a read/write lock on a store, which are those of the scripts (`acquire_read.lua` and the others).

use std::collections::HashMap;
use std::time::Duration;

use super::refused_by;
use super::store::{Data, StoredKey, StoredReader};
use crate::clock::Instant;
use crate::node::{
    Blocker, Claim, Extension, Places, Refused, SHARED_PREFIX, Side, Sides, VoteParams, WantedTurn,
};

/// What a turn is about, as the letters of `turn.lua`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextTurn {
    /// Waiting callers of this side come next.
    Waiting(Side),
    /// Readers that waited have the lock, and others may join them. A writer may wait.
    Joining { writer_waits: bool },
}

/// Which callers come next.
#[derive(Clone, Copy)]
struct Turn {
    next: NextTurn,
    /// How long it lasts once the other side has left.
    window: Duration,
    until: Instant,
}

/// The turns of all locks, by their keys.
#[derive(Default)]
pub(super) struct Turns(HashMap<String, Turn>);

impl Turns {
    fn now(&self, key: &str, now: Instant) -> Option<Turn> {
        self.0.get(key).copied().filter(|turn| turn.until > now)
    }

    fn set(&mut self, key: &str, side: Side, wanted: WantedTurn, now: Instant) {
        self.0.retain(|_, turn| turn.until > now);
        let (next, until) = (NextTurn::Waiting(side), now + wanted.lasts());
        // A caller that waits for less time does not end the turn of another one earlier.
        if self.0.get(key).is_some_and(|turn| turn.next == next && turn.until > until) {
            return;
        }
        self.0.insert(key.to_owned(), Turn { next, window: wanted.window(), until });
    }

    /// Makes a turn last for its window only, because the other side has left. Returns the refusal of that side.
    fn opened(&mut self, key: &str, turn: Turn, now: Instant) -> Refused {
        let until = turn.until.min(now + turn.window);
        self.0.insert(key.to_owned(), Turn { until, ..turn });
        refusal(until.since(now), Blocker::Turn)
    }
}

/// The refusal of the only key of a read/write lock.
fn refusal(left: Duration, by: Blocker) -> Refused {
    let taken: Places = [0].into_iter().collect();
    Refused { left: Some(left), taken, by, holder: None }
}

/// Returns why a writer must not try, if it is the turn of waiting readers.
pub(super) fn before_write(
    data: &mut Data,
    claim: &Claim,
    sides: &Sides,
    params: VoteParams,
    now: Instant,
) -> Option<Refused> {
    let key = &claim.keys[0];
    let entry = data.keys.without_expired([key], now).get(key);
    let waits = params.turn.filter(|_| entry.is_some_and(StoredKey::is_shared));
    if !params.first || entry.is_some() && waits.is_none() {
        return None;
    }
    let turn = data.turns.now(&sides.turn, now);
    match (turn.map(|turn| (turn, turn.next)), waits) {
        (Some((turn, NextTurn::Waiting(Side::Read))), _) => {
            Some(data.turns.opened(&sides.turn, turn, now))
        }
        // Until the readers' turn ends, others join them. Afterwards, or once all have left, it is the writers' turn.
        (Some((turn, NextTurn::Joining { .. })), Some(_)) => {
            let next = NextTurn::Joining { writer_waits: true };
            data.turns.0.insert(sides.turn.clone(), Turn { next, ..turn });
            Some(refusal(turn.until.since(now), Blocker::Turn))
        }
        (_, Some(wanted)) => {
            data.turns.set(&sides.turn, Side::Write, wanted, now);
            None
        }
        (_, None) => {
            data.turns.0.remove(&sides.turn);
            None
        }
    }
}

/// Adds the reader, or returns why it may not read.
pub(super) fn acquire_read(
    data: &mut Data,
    claim: &Claim,
    sides: &Sides,
    params: VoteParams,
    now: Instant,
) -> Option<Refused> {
    let (key, end) = (&claim.keys[0], now + params.ttl);
    let entries = data.keys.without_expired([key], now);
    if let Some(entry) = entries.get(key).filter(|entry| !entry.is_shared()) {
        if let Some(wanted) = params.turn {
            data.turns.set(&sides.turn, Side::Read, wanted, now);
        }
        let (by, holder) = refused_by(entry);
        return Some(Refused { holder, ..refusal(entry.expires.since(now), by) });
    }
    let is_reader = entries.get(key).is_some_and(|entry| entry.reader(&claim.token).is_some());
    let (is_free, turn) = (!entries.contains_key(key), data.turns.now(&sides.turn, now));
    if let Some(turn) = turn.filter(|_| params.first && !is_reader) {
        match (turn.next, is_free) {
            (NextTurn::Waiting(Side::Write), false) => {
                return Some(refusal(turn.until.since(now), Blocker::Turn));
            }
            (NextTurn::Waiting(Side::Write) | NextTurn::Joining { writer_waits: true }, true) => {
                return Some(data.turns.opened(&sides.turn, turn, now));
            }
            _ => {}
        }
    }
    // The first reader begins the turn of those that waited with it.
    if let Some(turn) = turn.filter(|turn| is_free && turn.next == NextTurn::Waiting(Side::Read)) {
        let next = NextTurn::Joining { writer_waits: false };
        data.turns.0.insert(sides.turn.clone(), Turn { next, until: now + turn.window, ..turn });
    }
    let new = || StoredKey::new(format!("{SHARED_PREFIX}{}", claim.token), end);
    let entry = entries.entry(key.clone()).or_insert_with(new);
    entry.readers.retain(|reader| reader.expires > now || reader.token == claim.token);
    match entry.readers.iter_mut().find(|reader| reader.token == claim.token) {
        Some(reader) => reader.expires = reader.expires.max(end),
        None => entry.readers.push(StoredReader { token: claim.token.clone(), expires: end }),
    }
    entry.expires = entry.expires.max(end);
    None
}

/// Extends the reader, if it is one.
pub(super) fn extend_read(
    data: &mut Data,
    claim: &Claim,
    ttl: Duration,
    now: Instant,
) -> Extension {
    let key = &claim.keys[0];
    let Some(entry) = data.keys.without_expired([key], now).get_mut(key) else {
        return Extension::Missing;
    };
    if !entry.is_shared() {
        return if entry.is_kept() { Extension::Missing } else { Extension::Taken };
    }
    let Some(reader) = entry.readers.iter_mut().find(|reader| reader.token == claim.token) else {
        return Extension::Missing;
    };
    reader.expires = reader.expires.max(now + ttl);
    entry.expires = entry.expires.max(reader.expires);
    Extension::Extended
}

/// Removes the reader. The last one deletes the key. Returns whether it was a reader.
pub(super) fn release_read(data: &mut Data, claim: &Claim, now: Instant) -> bool {
    let key = &claim.keys[0];
    let entries = data.keys.without_expired([key], now);
    let Some(entry) = entries.get_mut(key).filter(|entry| entry.is_shared()) else { return false };
    let was_reader = entry.reader(&claim.token).is_some();
    entry.readers.retain(|reader| reader.token != claim.token);
    let last = entry.readers.iter().map(|reader| reader.expires).max();
    if let Some(last) = last.filter(|last| *last > now) {
        entry.expires = entry.expires.min(last);
    } else {
        entries.remove(key);
    }
    was_reader
}
