//! What is logged of an acquire that takes long: that too few nodes can be used, once, and of a wait without an end that
//! another holder has the lock, repeatedly. The nodes' outages are logged by `node::outage`.

use std::time::Duration;

use super::refusal::Refusal;
use super::request::Request;
use super::retry::FALLBACK;
use crate::error::seconds;
use crate::log;
use crate::record::{Level, Topic};
use crate::spans::Spans;
use crate::throttle::Omitted;

/// An endless wait is first logged after this time, and again each time its duration has doubled.
const LONG: Duration = Duration::from_secs(30);

/// What was logged for one acquire.
pub(super) struct Patience {
    useless: bool,
    /// Whether a wait for other callers of this client was logged, and a wait for another client.
    waits: [bool; 2],
    /// How long it may wait before that is logged.
    due: Duration,
    /// Where its events belong.
    pub(super) spans: Spans,
}

impl Patience {
    /// Nothing yet.
    pub(super) fn new(request: &Request) -> Self {
        let spans = Spans::acquire(|| request.key());
        Self { useless: false, waits: [false; 2], due: LONG, spans }
    }

    /// Logs once that it begins to wait, and for what.
    pub(super) fn waits(&mut self, request: &Request, last: &Refusal) {
        let said = &mut self.waits[usize::from(!matches!(last, Refusal::Queued))];
        if last.is_unavailable() || std::mem::replace(said, true) {
            return;
        }
        if log::wanted(Level::Debug, Topic::Acquire) {
            let (holder, remaining) = last.who_was_first();
            log::event!(
                Debug, Acquire, in self.spans.place(), { key: request.key(), remaining_ms: remaining },
                "waiting: {holder}", holder = holder
            );
        }
    }

    /// Logs once that too few nodes could be used for as long as this. The nodes themselves log their outages, once for
    /// all acquires. Where a quorum granted too late, no node failed. Such records are limited for all acquires.
    pub(super) fn useless(
        &mut self,
        request: &Request,
        last: &Refusal,
        lasted: Duration,
        log_late: impl FnOnce() -> Option<Omitted>,
    ) {
        if self.useless || lasted < FALLBACK {
            return;
        }
        self.useless = true;
        let Some(error) = last.error(request, Some(lasted)) else { return };
        let late = matches!(last, Refusal::Late(..)).then(log_late).flatten();
        if let Some(omitted) = late {
            log::event!(
                Warn, Acquire, { key: request.key() },
                "every grant arrived too late, retrying until wait ends: {why}",
                why = format_args!("{error}{omitted}")
            );
        } else {
            log::event!(
                Debug, Acquire, { key: request.key() }, "retrying until wait ends: {why}", why = error
            );
        }
    }

    /// Logs that another owner has held the lock for this long. `own` adds details if the owner is in this client.
    pub(super) fn held(
        &mut self,
        request: &Request,
        last: &Refusal,
        waited: Duration,
        own: impl FnOnce() -> String,
    ) {
        if waited < self.due {
            return;
        }
        self.due = waited * 2;
        let why = format!("{}{}", last.who_was_first().0, own());
        log::event!(
            Warn, Acquire, { key: request.key() },
            "still waiting after {waited}, because wait is not set: {why}",
            waited = seconds(waited), why = why,
        );
    }
}
