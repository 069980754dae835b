//! Logs an acquire that waits: once for its holder, and again each time an endless wait has doubled. Logs once that too
//! few nodes can be used.

use std::time::Duration;

use super::refusal::Refusal;
use super::retry::FALLBACK;
use super::round::Acquirer;
use crate::error::seconds;
use crate::options::lock::Request;
use crate::telemetry::{Level, Spans, Topic, log};

/// An endless wait is first logged after this time, and again each time its duration has doubled.
const FIRST_WARNING: Duration = Duration::from_secs(30);

/// What one acquire has logged.
pub(super) struct WaitLog {
    /// A wait for other callers of this client.
    queued: bool,
    /// A wait for another client.
    held: bool,
    /// That too few nodes can be used.
    unavailable: bool,
    /// The waiting time at the next record about a held lock.
    next_warning: Duration,
}

impl WaitLog {
    pub(super) fn new() -> Self {
        Self { queued: false, held: false, unavailable: false, next_warning: FIRST_WARNING }
    }

    /// Logs once that the acquire begins to wait, and for which holder.
    pub(super) fn waiting(&mut self, refusal: &Refusal, request: &Request, spans: &Spans) {
        let is_queued = matches!(refusal, Refusal::Queued);
        let logged = if is_queued { &mut self.queued } else { &mut self.held };
        if refusal.is_unavailable() || std::mem::replace(logged, true) {
            return;
        }
        if log::wanted(Level::Debug, Topic::Acquire) {
            let (why, remaining) = refusal.describe_holder(request, None);
            log::event!(
                Debug, Acquire, in spans.log_context(), {
                    key: request.key(), remaining_ms: remaining, holder: refusal.holder(),
                },
                "waiting: {why}", why = why
            );
        }
    }

    /// Logs once that too few nodes could be used for `lasted`. `node::outage` logs the outages of nodes, once for all
    /// acquires. If a quorum granted too late, no node failed, and this is the only record.
    pub(super) fn unavailable(
        &mut self,
        refusal: &Refusal,
        request: &Request,
        acquirer: &Acquirer,
        lasted: Duration,
    ) {
        if lasted < FALLBACK || std::mem::replace(&mut self.unavailable, true) {
            return;
        }
        let Some(error) = refusal.error(request, Some(lasted)) else { return };
        let late = matches!(refusal, Refusal::Late(..));
        if let Some(omitted) = late.then(|| acquirer.late.admit(acquirer.clock().now())).flatten() {
            log::event!(
                Warn, Acquire, { key: request.key() },
                "every grant arrived too late, retrying: {why}",
                why = format_args!("{error}{omitted}")
            );
        } else {
            log::event!(Debug, Acquire, { key: request.key() }, "retrying: {why}", why = error);
        }
    }

    /// Whether an endless wait of this duration is to be logged again.
    pub(super) fn is_due(&self, waited: Duration) -> bool {
        waited >= self.next_warning
    }

    /// Logs that another owner holds the lock, which `why` describes.
    pub(super) fn held(
        &mut self,
        refusal: &Refusal,
        request: &Request,
        waited: Duration,
        why: &str,
    ) {
        self.next_warning = waited * 2;
        log::event!(
            Warn, Acquire, { key: request.key(), holder: refusal.holder() },
            "still waiting after {waited}, because wait sets no limit: {why}",
            waited = seconds(waited), why = why,
        );
    }
}
