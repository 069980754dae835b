//! The rules of a read/write lock on a store, which are those of the scripts (`acquire_read.lua` and the others).

use std::collections::HashMap;
use std::time::Duration;

use super::refused_by;
use super::store::{Data, Entry, Reader};
use crate::clock::Instant;
use crate::node::{
    Blocker, Claim, Extension, Places, Refused, SHARED_PREFIX, Side, Sides, VoteParams,
};

/// How long a turn lasts while the other side has the lock. A waiting caller sets it again before that.
const TURN: Duration = Duration::from_secs(3);

/// The side that comes next.
pub(super) struct Turn {
    side: Side,
    /// How long it lasts once the other side has left.
    window: Duration,
    until: Instant,
}

/// The turns of all locks, by their keys.
#[derive(Default)]
pub(super) struct Turns(HashMap<String, Turn>);

impl Turns {
    /// How long the turn of this side lasts, if it is its turn.
    fn left(&self, key: &str, side: Side, now: Instant) -> Option<Duration> {
        let turn = self.0.get(key).filter(|turn| turn.side == side && turn.until > now)?;
        Some(turn.until.since(now))
    }

    fn set(&mut self, key: &str, side: Side, window: Duration, now: Instant) {
        self.0.retain(|_, turn| turn.until > now);
        self.0.insert(key.to_owned(), Turn { side, window, until: now + TURN });
    }

    /// Begins the turn of this side, whose callers wait for the other side no more.
    pub(super) fn open(&mut self, key: &str, side: Side, now: Instant) {
        if let Some(turn) = self.0.get_mut(key).filter(|turn| turn.side == side) {
            turn.until = turn.until.min(now + turn.window);
        }
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
    let readers = data.turns.left(&sides.turn, Side::Read, now);
    match entry {
        None => readers.filter(|_| params.first).map(|left| refusal(left, Blocker::Turn)),
        Some(entry) => {
            if let Some(window) = params.turn.filter(|_| readers.is_none() && entry.is_shared()) {
                data.turns.set(&sides.turn, Side::Write, window, now);
            }
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
        if let Some(window) = params.turn {
            data.turns.set(&sides.turn, Side::Read, window, now);
        }
        let (by, holder) = refused_by(entry);
        return Some(Refused { holder, ..refusal(entry.expires.since(now), by) });
    }
    let is_reader = entries.get(key).is_some_and(|entry| entry.reader(&claim.token).is_some());
    if params.first
        && !is_reader
        && let Some(left) = data.turns.left(&sides.turn, Side::Write, now)
    {
        return Some(refusal(left, Blocker::Turn));
    }
    let entry = entries.entry(key.clone()).or_insert_with(|| {
        data.turns.open(&sides.turn, Side::Read, now);
        Entry::new(format!("{SHARED_PREFIX}{}", claim.token), end)
    });
    entry.readers.retain(|reader| reader.expires > now || reader.token == claim.token);
    match entry.readers.iter_mut().find(|reader| reader.token == claim.token) {
        Some(reader) => reader.expires = reader.expires.max(end),
        None => entry.readers.push(Reader { token: claim.token.clone(), expires: end }),
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
pub(super) fn release_read(data: &mut Data, claim: &Claim, sides: &Sides, now: Instant) -> bool {
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
        data.turns.open(&sides.turn, Side::Write, now);
    }
    was_reader
}
