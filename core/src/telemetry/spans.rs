//! Tracing spans of an acquire and of its lease. Without a subscriber none are made.
//!
//! They are made on the caller's thread, below its current span, and closed on the log's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Span, info_span};

use super::log::{LogContext, enqueue_end, here, spans_wanted};

/// The span of one acquire or one lease, below the caller's span.
///
/// Boxed, because an acquire's future is already large and is moved.
pub(crate) struct Spans(Option<Box<Mutex<Option<Arc<LogContext>>>>>);

impl Spans {
    /// The span of an acquire that begins now.
    pub(crate) fn acquire(key: impl FnOnce() -> String) -> Self {
        if !spans_wanted() {
            return Self(None);
        }
        Self::begin(here, |within| {
            info_span!(
                target: "redlock::acquire", parent: within, "redlock.acquire",
                key = key(), outcome = Empty, waited_ms = Empty
            )
        })
    }

    /// The span of the lease that this acquire returned.
    pub(crate) fn hold(&self, key: impl FnOnce() -> String, token: &str) -> Option<Self> {
        let acquire = self.log_context()?;
        let within = || LogContext {
            subscriber: acquire.subscriber.clone(),
            span: acquire.within.clone(),
            within: Span::none(),
        };
        let held = Self::begin(within, |within| holds(within, &key(), token));
        // Dropped on the log's thread, because this may be the last reference.
        enqueue_end(acquire);
        Some(held)
    }

    /// The span of an attached lease.
    pub(crate) fn attached(key: impl FnOnce() -> String, token: &str) -> Option<Self> {
        spans_wanted().then(|| Self::begin(here, |within| holds(within, &key(), token)))
    }

    /// Makes a span below another one. If the subscriber panics, no span is made.
    fn begin(outer: impl FnOnce() -> LogContext, make: impl FnOnce(&Span) -> Span) -> Self {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let outer = outer();
            let span = make(&outer.span);
            LogContext { span, within: outer.span, subscriber: outer.subscriber }
        }));
        Self(begun.ok().map(|place| Box::new(Mutex::new(Some(Arc::new(place))))))
    }

    /// The log context of the events, until [`Self::end`].
    pub(crate) fn log_context(&self) -> Option<Arc<LogContext>> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of the acquire.
    pub(crate) fn note(&self, outcome: &str, waited: Duration) {
        let Some(place) = self.log_context() else { return };
        let _ = catch_unwind(AssertUnwindSafe(|| {
            place.span.record("outcome", outcome).record("waited_ms", waited.as_secs_f64() * 1e3);
        }));
        // Dropped on the log's thread, because this may be the last reference.
        enqueue_end(place);
    }

    /// Closes the span after its events.
    pub(crate) fn end(&self) {
        let Some(place) = &self.0 else { return };
        let place = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        place.into_iter().for_each(enqueue_end);
    }
}

fn holds(within: &Span, key: &str, token: &str) -> Span {
    info_span!(target: "redlock::lease", parent: within, "redlock.hold", key, token)
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.end();
    }
}
