//! Core's warnings, on their way to `process.emitWarning`.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use napi_derive::napi;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::calls::Ended;
use crate::inbox::Inbox;
use crate::outcome::Outcome;

/// The environments that could show a warning; the first one alive gets it, as warnings are the process's.
static INBOXES: Mutex<Vec<Weak<Inbox>>> = Mutex::new(Vec::new());

pub(crate) fn forward_to(inbox: &Arc<Inbox>) {
    static SUBSCRIBE: Once = Once::new();
    // Refused only if something in this addon set another one, which then is the one that should speak.
    SUBSCRIBE.call_once(|| {
        // It only leaves texts in a queue.
        redlock::ffi::log_in_place();
        drop(tracing::subscriber::set_global_default(Warnings));
    });
    alive().push(Arc::downgrade(inbox));
}

fn alive() -> MutexGuard<'static, Vec<Weak<Inbox>>> {
    let mut inboxes = INBOXES.lock().unwrap_or_else(PoisonError::into_inner);
    inboxes.retain(|inbox| inbox.upgrade().is_some_and(|inbox| inbox.alive()));
    inboxes
}

pub(crate) fn warn(text: String) {
    let first = alive().first().and_then(Weak::upgrade);
    if let Some(inbox) = first {
        inbox.push([Ended { slot: 0, number: 0, outcome: Outcome::Warning(text) }]);
    }
}

/// On one line, without what a terminal would obey, and cut.
#[napi(catch_unwind)]
#[allow(clippy::needless_pass_by_value, reason = "what comes from JavaScript is owned")]
pub fn shown(text: String) -> String {
    redlock::ffi::shown(&text)
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
        let mut text = Text::default();
        event.record(&mut text);
        warn(text.message + &text.fields);
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

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
