//! Delivers events to a binding as plain data, on the thread where they occur, instead of to `tracing`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::record::{Level, Record, Topic};

/// The listener of this process.
static LISTENER: OnceLock<fn(Record)> = OnceLock::new();
/// The least important level that the listener wants, indexed by topic.
static WANTED: [AtomicU8; Topic::ALL.len()] = [const { AtomicU8::new(0) }; Topic::ALL.len()];

/// Sets the listener, which is called on the thread of each event. It must neither block nor call back.
///
/// [`want`] sets which events it receives.
pub fn listen(listener: fn(Record)) {
    // The first listener stays, because a binding is loaded once.
    let _ = LISTENER.set(listener);
}

/// Sets the least important level that the listener wants of a topic. `None` disables the topic.
pub fn want(topic: Topic, level: Option<Level>) {
    WANTED[topic as usize].store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
}

/// Logs an event of the binding.
pub fn tell(record: Record) {
    if wants(record.level, record.topic) {
        pass(record);
    }
}

/// Whether the listener wants such events. This is cheap: it reads one atomic.
#[inline]
pub(crate) fn wants(level: Level, topic: Topic) -> bool {
    level as u8 <= WANTED[topic as usize].load(Ordering::Relaxed)
}

/// Whether a listener is set.
pub(crate) fn is_there() -> bool {
    LISTENER.get().is_some()
}

/// Passes the record to the listener. Returns it if no listener is set.
pub(crate) fn pass(record: Record) -> Option<Record> {
    let Some(listener) = LISTENER.get() else { return Some(record) };
    // A panic in the listener must not end a lease.
    let _ = catch_unwind(AssertUnwindSafe(|| listener(record)));
    None
}
