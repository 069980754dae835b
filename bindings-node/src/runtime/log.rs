//! Events of core. Warnings go to `process.emitWarning`, and events to the threads with subscribers.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use redlock::ffi::{self, Level, Record, Topic};

use super::event_loop::EventLoop;

/// The event loops that can emit a warning. Warnings belong to the process, so only the first live loop gets each.
static LOOPS: Mutex<Vec<Weak<EventLoop>>> = Mutex::new(Vec::new());

/// Adds an event loop for warnings and other events.
pub(crate) fn forward_to(event_loop: &Arc<EventLoop>) {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| ffi::listen(on_event));
    loops().push(Arc::downgrade(event_loop));
    request_events();
}

/// Requests from core the events that have subscribers, and in any case warnings.
pub(super) fn request_events() {
    let loops = alive();
    for topic in Topic::ALL {
        let wanted = |level| loops.iter().any(|event_loop| event_loop.wants_events(topic, level));
        let least = [Level::Debug, Level::Info].into_iter().find(|level| wanted(*level));
        ffi::want(topic, least.or(Some(Level::Warn)));
    }
}

fn loops() -> MutexGuard<'static, Vec<Weak<EventLoop>>> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the event loops that are alive, and forgets the others. The last reference to a loop is never dropped under
/// the mutex, because that drops leases, which log events.
fn alive() -> Vec<Arc<EventLoop>> {
    let known: Vec<_> = loops().iter().filter_map(Weak::upgrade).collect();
    let (alive, ended): (Vec<_>, Vec<_>) = known.into_iter().partition(|known| known.alive());
    loops().retain(|known| {
        known.strong_count() > 0 && !ended.iter().any(|ended| known.as_ptr() == Arc::as_ptr(ended))
    });
    alive
}

/// Called on the thread of the event.
fn on_event(record: Record) {
    for event_loop in alive() {
        if event_loop.wants_events(record.topic, record.level) {
            event_loop.push_event(&record);
        }
    }
    if record.level <= Level::Warn {
        warn(record.text());
    }
}

/// Emits a warning on the first event loop that is still alive.
pub(crate) fn warn(text: String) {
    if let Some(first) = alive().first() {
        first.push_warning(text);
    }
}
