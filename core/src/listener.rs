//! A binding's way to what the library has to say: plain data, left where it happens, instead of `tracing`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::record::{Level, Record, Topic};

/// Who hears of events in this process.
static LISTENER: OnceLock<fn(Record)> = OnceLock::new();
/// The least important level that it wants, by the number of the topic.
static WANTED: [AtomicU8; Topic::ALL.len()] = [const { AtomicU8::new(0) }; Topic::ALL.len()];

/// Each event is left with `listener`, on the thread on which it happens: it must neither block nor call back. What it
/// wants is said by [`want`].
pub fn listen(listener: fn(Record)) {
    // The first one stays: a binding is loaded once.
    let _ = LISTENER.set(listener);
}

/// The least important level that the listener wants of a topic; `None`: nothing.
pub fn want(topic: Topic, level: Option<Level>) {
    WANTED[topic as usize].store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
}

/// An event that the binding itself has to say.
pub fn tell(record: Record) {
    if wants(record.level, record.topic) {
        pass(record);
    }
}

/// Whether the listener wants it: one look at one number.
#[inline]
pub(crate) fn wants(level: Level, topic: Topic) -> bool {
    level as u8 <= WANTED[topic as usize].load(Ordering::Relaxed)
}

/// Whether there is one.
pub(crate) fn is_there() -> bool {
    LISTENER.get().is_some()
}

/// Leaves it with the listener; back if there is none.
pub(crate) fn pass(record: Record) -> Option<Record> {
    let Some(listener) = LISTENER.get() else { return Some(record) };
    // Even so: a lease must not end by what its log does.
    let _ = catch_unwind(AssertUnwindSafe(|| listener(record)));
    None
}
