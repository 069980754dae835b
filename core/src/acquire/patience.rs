//! What is logged of an acquire that takes long: that too few nodes can be used, once, and of a wait without an end that
//! another holder has the lock, repeatedly. The nodes' outages are logged by `node::outage`.

use std::time::Duration;

use super::pace::FALLBACK;
use super::refusal::Refusal;
use super::request::Request;
use crate::error::seconds;
use crate::log;
use crate::record::{Level, Topic};
use crate::spans::Spans;
use crate::throttle::Omitted;

/// By then a wait without an end is said for the first time; each next time when it has lasted twice as long.
const LONG: Duration = Duration::from_secs(30);

/// What was said of one acquire.
pub(super) struct Patience {
    useless: bool,
    /// That it waits for others of this client, and that it waits for somebody else.
    waits: [bool; 2],
    /// How long it may wait before that is said.
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

    /// Whether it had to let others of this process go first.
    pub(super) fn was_queued(&self) -> bool {
        self.waits[0]
    }

    /// It begins to wait, for whoever was first.
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

    /// Somebody else has held it for as long as this; `own` says more where this client is known to be that.
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
