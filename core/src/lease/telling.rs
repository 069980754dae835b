//! What is told of a lease's end: in numbers, to whoever waits for it, to the log, and to programs that trace.

use std::sync::Arc;
use std::time::Duration;

use super::phase::{Phase, Status};
use super::state::State;
use crate::clock::Instant;
use crate::error::LossReason;
use crate::log::{self, Place};
use crate::meter;
use crate::spans::Spans;

impl State {
    /// It ends, and is counted: who finds it ended finds it among the numbers as well.
    ///
    /// The clock is not asked here: one that panics must not come between the end and the word of it.
    pub(super) fn end(&self, phase: &mut Phase, end: Status, now: Instant) {
        phase.status = end;
        let held = now.since(self.params.acquired);
        match end {
            Status::Released => self.leases.counts.released(held),
            Status::Lost(reason, _) => self.leases.counts.lost(reason, held),
            Status::Held | Status::Detached => {}
        }
    }

    /// However it was lost, whoever waits for the word has it, and the log says so.
    pub(crate) fn tell(&self, reason: LossReason) {
        self.ring();
        let held = self.age();
        meter::held("lost", || held);
        macro_rules! say {
            ($level:ident) => {
                log::event!(
                    $level, Lease, in self.place(),
                    {
                        key: self.key(), reason: reason.as_str(), token: self.token_prefix(), held_ms: held,
                        attached: self.attached(),
                    },
                    "lease lost"
                )
            };
        }
        match reason {
            // The program asked for it, by `shutdown` or `release_all`.
            LossReason::Revoked => say!(Info),
            _ => say!(Warn),
        }
        self.end_spans();
    }

    /// Its owner has given it back.
    pub(super) fn say_released(&self) {
        meter::held("released", || self.age());
        log::event!(
            Debug, Lease, in self.place(),
            {
                key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
            },
            "released"
        );
        self.end_spans();
    }

    /// Its owner has left it to itself.
    pub(super) fn say_detached(&self) {
        meter::held("detached", || self.age());
        log::event!(
            Debug, Lease, in self.place(),
            {
                key: self.key(), token: self.token_prefix(), held_ms: self.age(), attached: self.attached(),
            },
            "detached"
        );
        self.end_spans();
    }

    /// How long it has been held.
    fn age(&self) -> Duration {
        self.now().since(self.params.acquired)
    }

    /// Its events belong there from now on.
    pub(crate) fn keep_spans(&self, spans: Spans) {
        // It may be over already, and nobody would close them.
        if self.spans.set(spans).is_ok() && self.deadline().is_none() {
            self.end_spans();
        }
    }

    /// Where its events belong.
    pub(crate) fn place(&self) -> Option<Arc<Place>> {
        self.spans.get()?.place()
    }

    /// It is over.
    fn end_spans(&self) {
        self.spans.get().into_iter().for_each(Spans::end);
    }

    /// Said of no other lease: that it is the end of one that was attached, and not of the one that was acquired.
    fn attached(&self) -> Option<&'static str> {
        self.params.attached.then_some("true")
    }

    /// As much of the token as logs show: who reads them must not be able to release it.
    pub(crate) fn token_prefix(&self) -> &str {
        self.params.claim.token.get(..8).unwrap_or_default()
    }
}
