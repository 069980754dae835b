//! Events of core. Warnings go to `process.emitWarning`, and events to the threads with subscribers.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use redlock::ffi::{self, Level, Record, Topic};

use super::event_loop::EventLoop;
use crate::outcome::{Ended, Outcome};

/// The event loops that can emit a warning. Warnings belong to the process, so only the first live loop gets each.
static LOOPS: Mutex<Vec<Weak<EventLoop>>> = Mutex::new(Vec::new());

/// Adds an event loop for warnings and other events.
pub(crate) fn forward_to(event_loop: &Arc<EventLoop>) {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| ffi::listen(on_event));
    alive().push(Arc::downgrade(event_loop));
    request_events();
}

/// Requests events from core for the topics with subscribers, and only warnings for the others.
pub(super) fn request_events() {
    let loops: Vec<_> = alive().iter().filter_map(Weak::upgrade).collect();
    for topic in Topic::ALL {
        let wanted = loops.iter().any(|event_loop| event_loop.wants_events(topic));
        ffi::want(topic, Some(if wanted { Level::Debug } else { Level::Warn }));
    }
}

fn alive() -> MutexGuard<'static, Vec<Weak<EventLoop>>> {
    let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.retain(|known| known.upgrade().is_some_and(|known| known.alive()));
    loops
}

/// Called on the thread of the event.
fn on_event(record: Record) {
    let loops: Vec<_> = alive().iter().filter_map(Weak::upgrade).collect();
    for event_loop in loops {
        if event_loop.wants_events(record.topic) {
            event_loop.push_event(&record);
        }
    }
    if record.level <= Level::Warn {
        warn(record.text());
    }
}

/// Emits a warning on the first event loop that is still alive.
pub(crate) fn warn(text: String) {
    let first = alive().first().and_then(Weak::upgrade);
    if let Some(first) = first {
        first.push([Ended { slot: 0, number: 0, outcome: Outcome::Warning(text) }]);
    }
}
