//! Core's warnings, on their way to `process.emitWarning`.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

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
        redlock::log_in_place();
        drop(tracing::subscriber::set_global_default(Warnings));
    });
    let mut inboxes = INBOXES.lock().unwrap_or_else(PoisonError::into_inner);
    inboxes.push(Arc::downgrade(inbox));
}

fn warn(text: String) {
    let first = {
        let mut inboxes = INBOXES.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = |inbox: &Weak<Inbox>| inbox.upgrade().is_some_and(|inbox| inbox.alive());
        inboxes.retain(alive);
        inboxes.first().and_then(Weak::upgrade)
    };
    if let Some(inbox) = first {
        inbox.push([Ended { slot: 0, number: 0, outcome: Outcome::Warning(text) }]);
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
