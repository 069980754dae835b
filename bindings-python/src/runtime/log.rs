//! Core's events, on their way to `logging.getLogger("redlock")`.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use redlock::ffi::log_text;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use super::dispatcher;
use crate::once::{Once, intern};

/// The least of Python's levels that its logger wants; asked of it when the dispatcher starts and whenever it has logged.
static WANTED: AtomicU8 = AtomicU8::new(20);

/// Has this process's events logged from now on.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    if dispatcher::start(py)? {
        subscribe(py)?;
    }
    Ok(())
}

/// Logs it, on a thread of Python's.
fn emit(py: Python<'_>, level: u8, text: &str) -> PyResult<()> {
    let logger = logger(py)?;
    refresh(logger)?;
    logger.call_method1(intern!(py, "log"), (level, "%s", text)).map(drop)
}

fn tell_of_dropped(py: Python<'_>, count: u64) -> PyResult<()> {
    let text = "log records were dropped here: a handler of this log is too slow for them";
    emit(py, 30, &format!("{count} {text}"))
}

fn logger(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static LOGGER: Once<Py<PyAny>> = Once::new();
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

/// Sends the events of target `redlock` to the dispatcher.
fn subscribe(py: Python<'_>) -> PyResult<()> {
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

/// The subscriber: from core's events to the dispatcher.
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
        let (level, text) = (level(*event.metadata().level()), log_text(event));
        dispatcher::send_if_room(Box::new(move |py| emit(py, level, &text)), tell_of_dropped);
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
