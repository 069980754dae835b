//! Core's warnings, on their way to `process.emitWarning`.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use redlock::ffi;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::event_loop::EventLoop;
use crate::outcome::{Ended, Outcome};

/// The event loops that could show a warning; the first one alive gets it, as warnings are the process's.
static LOOPS: Mutex<Vec<Weak<EventLoop>>> = Mutex::new(Vec::new());

/// This one shows warnings too, if it is asked.
pub(crate) fn forward_to(event_loop: &Arc<EventLoop>) {
    static SUBSCRIBE: Once = Once::new();
    // Refused only if something in this addon set another one, which then is the one that should speak.
    SUBSCRIBE.call_once(|| {
        // It only leaves texts in a queue.
        ffi::log_in_place();
        drop(tracing::subscriber::set_global_default(Warnings));
    });
    alive().push(Arc::downgrade(event_loop));
}

fn alive() -> MutexGuard<'static, Vec<Weak<EventLoop>>> {
    let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.retain(|known| known.upgrade().is_some_and(|known| known.alive()));
    loops
}

/// Shows a warning, wherever somebody is there to see it.
pub(crate) fn warn(text: String) {
    let first = alive().first().and_then(Weak::upgrade);
    if let Some(first) = first {
        first.push([Ended { slot: 0, number: 0, outcome: Outcome::Warning(text) }]);
    }
}

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target() == "redlock" && metadata.is_event()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        warn(ffi::log_text(event));
    }

    // Spans are not enabled; the trait asks for answers all the same.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
