//! Replaces the spans if the feature `tracing` is disabled.

use std::sync::Arc;
use std::time::Duration;

use crate::log::Place;

/// Replaces the spans.
pub(crate) struct Spans;

#[allow(clippy::unused_self, reason = "as where there are some")]
impl Spans {
    /// Makes no span.
    pub(crate) fn acquire(_: impl FnOnce() -> String) -> Self {
        Self
    }

    /// Makes no span.
    pub(crate) fn hold(&self, _: impl FnOnce() -> String, _: &str) -> Self {
        Self
    }

    /// Makes no span.
    pub(crate) fn attached(_: impl FnOnce() -> String, _: &str) -> Self {
        Self
    }

    /// Always false.
    pub(crate) fn are_made(&self) -> bool {
        false
    }

    /// Always `None`.
    pub(crate) fn place(&self) -> Option<Arc<Place>> {
        None
    }

    /// Records nothing.
    pub(crate) fn note(&self, _: &str, _: Duration) {}

    /// Closes nothing.
    pub(crate) fn end(&self) {}
}
