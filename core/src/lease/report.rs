//! Reports the end of a lease: counters, waiting futures, log and traces.

use std::sync::Arc;
use std::time::Duration;

use super::phase::{Phase, Status};
use super::state::State;
use crate::clock::Instant;
use crate::error::LossReason;
use crate::telemetry::log::LogContext;
use crate::telemetry::{Spans, log, metrics};

impl State {
    /// Sets the final status and counts it, so that a caller that sees the end also sees it in the statistics.
    ///
    /// It does not read the clock: a custom clock that panics must not come between the end and its notification.
    pub(super) fn end(&self, phase: &mut Phase, end: Status, now: Instant) {
        phase.status = end;
        let held = now.since(self.params.acquired);
        match end {
            Status::Released => self.leases.counts.released(held),
            Status::Lost(reason, _) => self.leases.counts.lost(reason, held),
            Status::Held | Status::Detached => {}
        }
    }

    /// Reports the end to the metrics, the log and the spans. Waiting futures are notified of a loss first.
    pub(super) fn report(&self, end: Status) {
        let word = match end {
            Status::Lost(reason, _) => {
                self.notify_ended();
                macro_rules! say {
                    ($level:ident) => {
                        log::event!(
                            $level, Lease, in self.log_context(),
                            {
                                key: self.key(), reason: reason.as_str(), token: self.token_prefix(),
                                held_ms: self.age(), attached: self.attached(),
                            },
                            "lease lost"
                        )
                    };
                }
                match reason {
                    // The program requested it with `shutdown` or `release_all`.
                    LossReason::Revoked => say!(Info),
                    _ => say!(Warn),
                }
                "lost"
            }
            Status::Released => {
                log::event!(
                    Debug, Lease, in self.log_context(),
                    {
                        key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
                    },
                    "released"
                );
                "released"
            }
            Status::Detached => {
                log::event!(
                    Debug, Lease, in self.log_context(),
                    {
                        key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
                    },
                    "detached"
                );
                "detached"
            }
            Status::Held => return,
        };
        metrics::held(word, || self.age());
        self.spans.get().into_iter().for_each(Spans::end);
    }

    /// How long the lease has been held.
    fn age(&self) -> Duration {
        self.now().since(self.params.acquired)
    }

    /// Sets the span that later events belong to, if one was made.
    pub(crate) fn keep_spans(&self, spans: Option<Spans>) {
        let Some(spans) = spans else { return };
        // The lease may have ended already. Nothing else would close the span then.
        if self.spans.set(spans).is_ok() && self.deadline().is_none() {
            self.spans.get().into_iter().for_each(Spans::end);
        }
    }

    /// The span that events belong to.
    pub(crate) fn log_context(&self) -> Option<Arc<LogContext>> {
        self.spans.get()?.log_context()
    }

    /// A log field that tells the end of an attached lease from the end of an acquired one.
    fn attached(&self) -> Option<&'static str> {
        self.params.attached.then_some("true")
    }

    /// The part of the token that logs show. It must not be enough to release the lease.
    pub(crate) fn token_prefix(&self) -> &str {
        self.params.claim.token.get(..8).unwrap_or_default()
    }
}
