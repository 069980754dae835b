//! When an acquire ends without a lease: with its `wait`, or without one when no quorum of nodes has replied for
//! `unavailable_after`.

use std::sync::Arc;
use std::time::Duration;

use super::line::NoQuorum;
use super::queue::Ticket;
use super::refusal::{Evidence, Refusal};
use super::retry::FALLBACK;
use crate::clock::{Clock, Instant, NEVER};

/// The minimum time between two checks of a caller that waits for its turn. Without it, a tiny `unavailable_after`
/// would keep the caller busy.
const CHECK: Duration = Duration::from_millis(100);

/// The end of one acquire.
///
/// A caller that waits for its turn has sent no request, and may not get its turn before its own time is over. The
/// callers of one process therefore share what their rounds showed (`Ticket`), and each has its own limit.
pub(super) struct Deadline {
    clock: Arc<dyn Clock>,
    pub(super) started: Instant,
    /// One budget for queueing, connecting, voting and pausing. `None` waits forever for a holder.
    wait: Option<Duration>,
    /// How long no quorum may reply. `None`: no limit, or `wait` is the limit.
    unavailable_after: Option<Duration>,
    has_asked: bool,
    /// Whether it waited for other callers of this process.
    pub(super) was_queued: bool,
    /// Since when no round has shown whether a quorum of nodes replies.
    doubtful_since: Option<Instant>,
}

impl Deadline {
    pub(super) fn new(
        clock: &Arc<dyn Clock>,
        wait: Option<Duration>,
        unavailable_after: Option<Duration>,
    ) -> Self {
        Self {
            clock: Arc::clone(clock),
            started: clock.now(),
            wait,
            unavailable_after: unavailable_after.filter(|_| wait.is_none()),
            has_asked: false,
            was_queued: false,
            doubtful_since: None,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn waited(&self) -> Duration {
        self.now().since(self.started)
    }

    /// Whether the acquire has a `wait`.
    pub(super) fn has_wait(&self) -> bool {
        self.wait.is_some()
    }

    /// Whether it has one round, because `wait` is 0.
    pub(super) fn allows_one_round(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }

    pub(super) fn left(&self) -> Duration {
        self.wait.map_or(Duration::MAX, |wait| wait.saturating_sub(self.waited()))
    }

    /// Whether `wait` ended while it waited for its turn, so that it must not send anything.
    pub(super) fn is_over_before_turn(&self) -> bool {
        self.was_queued && !self.allows_one_round() && self.left().is_zero()
    }

    pub(super) fn is_over(&self, ticket: &Ticket) -> bool {
        let given_up = || self.gives_up_at(ticket).is_some_and(|end| self.now() >= end);
        self.wait.map_or_else(given_up, |wait| self.waited() >= wait)
    }

    /// The deadline of a round. With a `wait` of 0, one whole round is allowed.
    pub(super) fn of_round(&self, ticket: &Ticket) -> Instant {
        match self.wait {
            None => self.gives_up_at(ticket).unwrap_or(NEVER),
            Some(Duration::ZERO) => NEVER,
            Some(wait) => self.started + wait,
        }
    }

    /// Waits until the acquire ends.
    pub(super) async fn passed(&self, ticket: &Ticket) {
        match self.wait {
            Some(wait) => self.clock.sleep_until(self.started + wait).await,
            None => self.no_quorum_for_too_long(ticket).await,
        }
    }

    /// Waits until no quorum has replied for `unavailable_after`.
    async fn no_quorum_for_too_long(&self, ticket: &Ticket) {
        let Some(limit) = self.unavailable_after else { return std::future::pending().await };
        loop {
            let (now, end) = (self.now(), self.gives_up_at(ticket));
            if end.is_some_and(|end| now >= end) {
                return;
            }
            // A period that begins during this sleep ends after it.
            let next = end.unwrap_or_else(|| now + limit.max(CHECK));
            self.clock.sleep_until(next).await;
        }
    }

    /// When this acquire fails unless a quorum replies. `None` if one replied lately, or with a `wait`.
    fn gives_up_at(&self, ticket: &Ticket) -> Option<Instant> {
        let limit = self.unavailable_after.filter(|_| self.has_asked || self.was_queued)?;
        Some(self.no_quorum(ticket)?.since + limit)
    }

    /// The part of the current period without a quorum that belongs to this acquire.
    pub(super) fn no_quorum(&self, ticket: &Ticket) -> Option<NoQuorum> {
        let NoQuorum { since, why } = ticket.no_quorum()?;
        Some(NoQuorum { since: since.max(self.started), why })
    }

    /// Records whether a quorum replied in a round between these times.
    pub(super) fn record(
        &mut self,
        refusal: &Refusal,
        began: Instant,
        ended: Instant,
        ticket: &Ticket,
    ) {
        self.has_asked = true;
        match refusal.has_quorum() {
            Some(true) => {
                self.doubtful_since = None;
                ticket.quorum_replied(ended);
            }
            Some(false) => {
                let since = self.doubtful_since.take().unwrap_or(began);
                ticket.quorum_missing(since, ended, &Arc::new(refusal.clone()));
            }
            // The scout's reply does not show whether the other nodes work.
            None if matches!(refusal, Refusal::Held { evidence: Evidence::Scout, .. }) => {}
            None => self.doubtful_since = self.doubtful_since.or(Some(began)),
        }
    }

    /// Whether the next round must find out whether a quorum replies, even if failed nodes decide the vote earlier.
    ///
    /// Without such rounds, one failed and one silent node of three could keep this unknown. They take longer, so most
    /// rounds are not.
    pub(super) fn is_quorum_doubtful(&self, now: Instant, ticket: &Ticket) -> bool {
        let Some(limit) = self.unavailable_after.filter(|_| self.has_asked) else { return false };
        let known = self.no_quorum(ticket).map(|period| period.since);
        let since = known.or(self.doubtful_since);
        since.is_some_and(|since| now.since(since) >= FALLBACK.min(limit / 2))
    }
}
