//! Spans of an acquire and of the lease that comes of it, for programs that trace; without a subscriber there are none.
//!
//! They are made on the thread of whoever acquires, below the span that it is in, and closed on the log's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::log::{Place, here, leave_place, spans_wanted};

/// Where events of one acquire, or of one lease, belong: in a span of its own, within that of whoever acquires.
/// In a box: an acquire's future is moved about, and is large enough.
pub(crate) struct Spans(Option<Box<Mutex<Option<Arc<Place>>>>>);

impl Spans {
    /// An acquire that begins here.
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

    /// The lease that came of this acquire.
    pub(crate) fn hold(&self, key: impl FnOnce() -> String, token: &str) -> Self {
        let Some(acquire) = self.place() else { return Self(None) };
        let within = || Place {
            subscriber: acquire.subscriber.clone(),
            span: acquire.within.clone(),
            within: Span::none(),
        };
        let held = Self::begin(within, |within| holds(within, &key(), token));
        // Not here: it may be the last that is left of it.
        leave_place(acquire);
        held
    }

    /// A lease that was there already: of a token that somebody brings along.
    pub(crate) fn attached(key: impl FnOnce() -> String, token: &str) -> Self {
        if !spans_wanted() {
            return Self(None);
        }
        Self::begin(here, |within| holds(within, &key(), token))
    }

    /// Whether there are any.
    pub(crate) fn are_made(&self) -> bool {
        self.0.is_some()
    }

    /// A span below another one. A subscriber that panics at any of this has no spans.
    fn begin(outer: impl FnOnce() -> Place, make: impl FnOnce(&Span) -> Span) -> Self {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let outer = outer();
            let span = make(&outer.span);
            Place { span, within: outer.span, subscriber: outer.subscriber }
        }));
        Self(begun.ok().map(|place| Box::new(Mutex::new(Some(Arc::new(place))))))
    }

    /// Where events belong, until [`Self::end`].
    pub(crate) fn place(&self) -> Option<Arc<Place>> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the acquire came to.
    pub(crate) fn note(&self, outcome: &str, waited: Duration) {
        let Some(place) = self.place() else { return };
        let _ = catch_unwind(AssertUnwindSafe(|| {
            place.span.record("outcome", outcome).record("waited_ms", waited.as_secs_f64() * 1e3);
        }));
        // Not here: it may be the last that is left of it.
        leave_place(place);
    }

    /// Closes it behind the events that were said in it.
    pub(crate) fn end(&self) {
        let Some(place) = &self.0 else { return };
        let place = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        place.into_iter().for_each(leave_place);
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
