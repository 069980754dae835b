//! Core's events, on their way to `logging.getLogger("redlock")`.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use super::dispatch;

/// The least of Python's levels that its logger wants; asked of it when the dispatcher starts and whenever it has logged.
static WANTED: AtomicU8 = AtomicU8::new(20);

/// One event, as plain data.
pub(crate) struct Record {
    level: u8,
    text: String,
}

impl Record {
    /// A log with a gap says so.
    pub(super) fn of_dropped(count: u64) -> Self {
        let text = format!(
            "{count} log records were dropped here: a handler of this log is too slow for them"
        );
        Self { level: 30, text }
    }

    /// Logs it, on a thread of Python's.
    pub(super) fn emit(&self, py: Python<'_>) -> PyResult<()> {
        let logger = logger(py)?;
        refresh(logger)?;
        logger.call_method1(intern!(py, "log"), (self.level, "%s", &self.text)).map(drop)
    }
}

fn logger(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOGGER
        .get_or_try_init(py, || {
            Ok(py.import("logging")?.call_method1("getLogger", ("redlock",))?.unbind())
        })
        .map(|logger| logger.bind(py))
}

fn refresh(logger: &Bound<'_, PyAny>) -> PyResult<()> {
    let level: u32 = logger.call_method0("getEffectiveLevel")?.extract()?;
    WANTED.store(u8::try_from(level).unwrap_or(u8::MAX), Ordering::Relaxed);
    Ok(())
}

/// Sends this process's events of target `redlock` to the dispatcher.
pub(super) fn subscribe(py: Python<'_>) -> PyResult<()> {
    // It only leaves records in a queue.
    redlock::ffi::log_in_place();
    // Refused only if it was set before: by us.
    drop(tracing::subscriber::set_global_default(Forward));
    refresh(logger(py)?)
}

fn level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

struct Forward;

impl Subscriber for Forward {
    fn register_callsite(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        // What Python wants may change at any time, so ask at each event.
        if metadata.target() == "redlock" && metadata.is_event() {
            tracing::subscriber::Interest::sometimes()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level(*metadata.level()) >= WANTED.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = level(*event.metadata().level());
        dispatch::send(dispatch::Event::Log(Record { level, text: text.message + &text.fields }));
    }

    // Spans are not enabled; the trait asks for answers all the same.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
