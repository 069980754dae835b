//! Logs long acquires. It logs once that too few nodes can be used. For an acquire without a `wait`, it logs repeatedly
//! that another holder has the lock. `node::outage` logs the outages of nodes.

use std::time::Duration;

use super::refusal::Refusal;
use super::request::Request;
use super::retry::FALLBACK;
use crate::error::seconds;
use crate::telemetry::{Level, Omitted, Spans, Topic, log};

/// An endless wait is first logged after this time, and again each time its duration has doubled.
const FIRST_WARNING: Duration = Duration::from_secs(30);

/// The log of one acquire.
pub(super) struct WaitLog {
    useless: bool,
    /// Whether a wait for other callers of this client was logged, and a wait for another client.
    waits: [bool; 2],
    /// The waiting time at the next record about a held lock.
    due: Duration,
    /// The spans of its events.
    pub(super) spans: Spans,
}

impl WaitLog {
    /// Creates a log without records.
    pub(super) fn new(request: &Request) -> Self {
        let spans = Spans::acquire(|| request.key());
        Self { useless: false, waits: [false; 2], due: FIRST_WARNING, spans }
    }

    /// Logs once that the acquire begins to wait, and for which holder.
    pub(super) fn log_waiting(&mut self, request: &Request, last: &Refusal) {
        let said = &mut self.waits[usize::from(!matches!(last, Refusal::Queued))];
        if last.is_unavailable() || std::mem::replace(said, true) {
            return;
        }
        if log::wanted(Level::Debug, Topic::Acquire) {
            let (holder, remaining) = last.describe_holder();
            log::event!(
                Debug, Acquire, in self.spans.log_context(), { key: request.key(), remaining_ms: remaining },
                "waiting: {holder}", holder = holder
            );
        }
    }

    /// Logs once that too few nodes could be used for this long. Outages of nodes are logged elsewhere, once for all
    /// acquires. If a quorum granted too late, no node failed, and this is the only record. `log_late` limits such
    /// records for all acquires.
    pub(super) fn log_unavailable(
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
    pub(super) fn log_held(
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
        let why = format!("{}{}", last.describe_holder().0, own());
        log::event!(
            Warn, Acquire, { key: request.key() },
            "still waiting after {waited}, because wait is not set: {why}",
            waited = seconds(waited), why = why,
        );
    }
}
