//! The end of an acquire without a `wait`: it fails when no quorum of nodes has replied for `unavailable_after`.
//!
//! Callers that want the same keys share what their rounds find. A caller that waits for its turn has not asked any
//! node, and may not get its turn before its own time is over.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::availability::NoQuorum;
use super::pace::FALLBACK;
use super::queue::Ticket;
use super::refusal::Refusal;
use crate::clock::Instant;

/// The minimum time between two checks of a caller that waits for its turn. Without it, a tiny limit would keep the
/// caller busy.
const CHECK: Duration = Duration::from_millis(100);

impl Attempt<'_> {
    /// How long no quorum may reply. `None`: no limit, or `wait` is the limit.
    fn limit(&self) -> Option<Duration> {
        self.request.options.unavailable_after.filter(|_| self.wait.is_none())
    }

    /// The part of the current period without a quorum that belongs to this acquire.
    pub(super) fn no_quorum(&self, ticket: &Ticket) -> Option<NoQuorum> {
        let NoQuorum { since, why } = ticket.no_quorum()?;
        Some(NoQuorum { since: since.max(self.started), why })
    }

    /// Notes whether a quorum replied in a round that began at `began`.
    pub(super) fn note_quorum(&mut self, refusal: &Refusal, began: Instant, ticket: &Ticket) {
        match refusal.has_quorum() {
            Some(true) => {
                self.doubtful_since = None;
                ticket.quorum_replied(self.now());
            }
            Some(false) => {
                let since = self.doubtful_since.take().unwrap_or(began);
                ticket.quorum_missing((since, self.now()), Arc::new(refusal.clone()));
            }
            // The scout says nothing about the other nodes.
            None if matches!(refusal, Refusal::Scouted(..)) => {}
            None => self.doubtful_since = self.doubtful_since.or(Some(began)),
        }
    }

    /// Whether the next round must find out whether a quorum replies, even if failed nodes decide the vote earlier.
    ///
    /// Without such rounds, one failed and one silent node of three could keep this unknown. They take longer, so most
    /// rounds are not.
    pub(super) fn is_doubtful(&self, ticket: &Ticket) -> bool {
        let Some(limit) = self.limit().filter(|_| self.has_asked()) else { return false };
        let known = self.no_quorum(ticket).map(|period| period.since);
        let since = known.or(self.doubtful_since);
        since.is_some_and(|since| self.now().since(since) >= FALLBACK.min(limit / 2))
    }

    /// When this acquire fails unless a quorum replies. `None` if one replied lately.
    pub(super) fn gives_up_at(&self, ticket: &Ticket) -> Option<Instant> {
        let limit = self.limit().filter(|_| self.has_asked() || self.patience.was_queued())?;
        Some(self.no_quorum(ticket)?.since + limit)
    }

    /// Ends when this acquire fails because no quorum replies.
    pub(super) async fn given_up(&self, ticket: &Ticket) {
        let Some(limit) = self.limit() else { return std::future::pending().await };
        loop {
            let (now, end) = (self.now(), self.gives_up_at(ticket));
            if end.is_some_and(|end| now >= end) {
                return;
            }
            // A period that begins during this sleep ends after it.
            let next = end.unwrap_or_else(|| now + limit.max(CHECK));
            self.acquirer.clock().sleep_until(next).await;
        }
    }
}
