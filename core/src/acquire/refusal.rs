//! Why a round granted no lease, and the error for that. The error of a time-out is made in [`super::attempt`].
//!
//! A refusal is read from existing votes. An error is never reported as "held by another", nor the reverse, because
//! callers act on the difference.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, NodeReport, seconds};
use crate::lease::{LeaseState, Leases};
use crate::node::{Blocker, CONFIRMED_AFTER, Label, Places, Refused, Remedy, Vote};
use crate::options::lock::Request;
use crate::primitive::Primitive;
use crate::quorum::{Collect, Nodes};
use crate::telemetry::Owner;

/// The error text for an owner that waits for its own lock.
pub const NOT_REENTRANT: &str = "Locks are not reentrant";

/// What shows that other clients hold the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The refusal of the scout, the only node that has replied. It gets its request before the others.
    Scout,
    /// The refusals of nodes, without which no quorum is left. If the nodes were `divided`, perhaps no client has one.
    Refusals { divided: bool },
    /// No quorum is left without the nodes that refused and those that failed. The refusals alone leave one. `replied`
    /// means that a quorum of nodes replied.
    WithFailures { replied: bool, divided: bool },
}

/// Why no lease was acquired yet.
#[derive(Clone)]
pub(crate) enum Refusal {
    /// Earlier callers of this process wait for the same keys.
    Queued,
    /// Other clients hold some of the keys.
    Held { refused: Box<Refused>, evidence: Evidence },
    /// Others have the places of this round on too many nodes for a quorum. Other places are open. `replied`
    /// means that a quorum of nodes replied.
    Missed { busy: Places, closed: Places, replied: bool },
    /// A quorum granted, but some of its grants did not count in the end: their server was replaced, or did not confirm
    /// the fencing token. No client is known to have the keys.
    Split,
    /// A quorum granted, but the replies took this long. The lease had expired by then, because it counts from the
    /// request.
    Late(Duration, Vec<NodeReport>),
    /// Too many nodes failed. Includes whether another attempt can succeed.
    Unavailable(Vec<NodeReport>, Remedy),
    /// No retry can help.
    Permanent(ErrorKind, String),
}

impl Refusal {
    /// Returns why too many nodes failed for a quorum. `timeout` is how long their replies were awaited.
    pub(super) fn of_faults<T>(nodes: &Nodes, votes: &Collect<T>, timeout: Duration) -> Self {
        match nodes.permanent(votes) {
            Some((kind, text)) => Self::Permanent(kind, text),
            None => Self::Unavailable(nodes.report(votes, timeout), nodes.remedy(votes)),
        }
    }

    /// Returns which refusal these votes are, for votes that leave no quorum although enough nodes work.
    ///
    /// The refusals decide together with the failed nodes. Otherwise one failed node of three would hide the holder,
    /// because its failure and one refusal end the round before the second refusal arrives.
    pub(crate) fn of_votes(votes: &Collect<Vote>, request: &Request) -> Self {
        let (primitive, tally) = (&request.primitive, &votes.tally);
        let places = primitive.places(&request.identity).len();
        let (taken, replied) = (taken_in(votes, places, tally.spare()), tally.answered());
        if primitive.has_open(&taken) {
            return Self::Missed { busy: taken_in(votes, places, 0), closed: taken, replied };
        }
        let divided = tally.divided();
        let evidence = if tally.denied() {
            Evidence::Refusals { divided }
        } else {
            Evidence::WithFailures { replied, divided }
        };
        let by = refusals(votes).map(|refused| refused.by);
        // A key is kept only after a success, so one node that remembers it is enough. Others may have forgotten it.
        let remembered = request.options.is_once() && by.clone().any(|by| by == Blocker::Kept);
        let by = if remembered { Blocker::Kept } else { by.max().unwrap_or_default() };
        let holder = holder_in(votes).cloned();
        let refused = Box::new(Refused { left: free_in(votes), taken, by, holder });
        Self::Held { refused, evidence }
    }

    /// The keys that other clients hold and that the caller must wait for. A single key is always one of them, unless
    /// the nodes could not even refuse it. `None` if the caller need not wait, because other places are open.
    pub(crate) fn taken(&self, keys: usize) -> Option<Places> {
        match self {
            Self::Missed { .. } => None,
            Self::Held { .. } | Self::Split if keys == 1 => Some([0].into_iter().collect()),
            Self::Held { refused, .. } => Some(refused.taken.clone()),
            Self::Split
            | Self::Queued
            | Self::Late(..)
            | Self::Unavailable(..)
            | Self::Permanent(..) => Some(Places::default()),
        }
    }

    /// Whether a change of the keys ends the pause after this refusal. Not after a split vote, because the votes would
    /// split again. Nor after a late grant, because the next one would also be late and keep the lock from others.
    pub(super) fn ends_by_change(&self) -> bool {
        !matches!(self, Self::Split | Self::Missed { .. } | Self::Late(..))
    }

    /// The places that others had on some node, and on too many nodes, for the claim of the next round.
    pub(super) fn busy(&self) -> [Places; 2] {
        match self {
            Self::Held { refused, .. } => [Places::default(), refused.taken.clone()],
            Self::Missed { busy, closed, .. } => [busy, closed].map(Places::clone),
            _ => Default::default(),
        }
    }

    /// Whether other callers may have tried at the same time, so that none of them has a quorum.
    pub(super) fn is_divided(&self) -> bool {
        match self {
            Self::Held { evidence, .. } => matches!(
                evidence,
                Evidence::Refusals { divided: true } | Evidence::WithFailures { divided: true, .. }
            ),
            _ => matches!(self, Self::Split | Self::Missed { .. }),
        }
    }

    /// Whether the nodes cannot be used: too many of them failed, or they were too slow for the TTL.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(..) | Self::Late(..))
    }

    /// Whether a quorum of nodes replied. `None` if this refusal does not tell.
    ///
    /// The scout is only one of the nodes. Failed nodes may have decided the vote before a quorum had replied.
    pub(super) fn has_quorum(&self) -> Option<bool> {
        match self {
            Self::Unavailable(..) | Self::Late(..) => Some(false),
            Self::Held { evidence: Evidence::WithFailures { replied: false, .. }, .. }
            | Self::Held { evidence: Evidence::Scout, .. }
            | Self::Missed { replied: false, .. }
            | Self::Queued
            | Self::Permanent(..) => None,
            Self::Held { .. } | Self::Missed { .. } | Self::Split => Some(true),
        }
    }

    /// Whether too many nodes refuse the user.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Unavailable(_, remedy) if *remedy >= Remedy::Refused)
    }

    /// Whether no attempt can succeed before the servers are changed. `refused_for` is the time since the first of
    /// consecutive rounds of this acquire that were refused.
    ///
    /// If it has a `wait`, a refusal from before the acquire does not count, because the login may have been fixed
    /// since.
    pub(crate) fn is_permanent(&self, refused_for: Duration, has_wait: bool) -> bool {
        let Self::Unavailable(_, remedy) = self else { return false };
        let most = if has_wait { Remedy::Confirmed } else { Remedy::Refused };
        *remedy > most || (self.is_refused() && refused_for >= CONFIRMED_AFTER)
    }

    /// Whether no attempt is needed, because the run that happens once is remembered.
    pub(super) fn is_remembered(&self, request: &Request) -> bool {
        let is_kept = |refused: &Refused| refused.by == Blocker::Kept;
        request.options.is_once() && matches!(self, Self::Held { refused, .. } if is_kept(refused))
    }

    /// Returns the error if the nodes or the options are the reason. `lasted` is the duration of the outage.
    pub(crate) fn error(&self, request: &Request, lasted: Option<Duration>) -> Option<Error> {
        match self {
            Self::Unavailable(nodes, _) => Some(request.unavailable(nodes.clone(), lasted)),
            Self::Late(took, nodes) => Some(request.late(*took, nodes.clone(), lasted)),
            Self::Permanent(kind, text) => Some(request.permanent(*kind, text)),
            // The lock is held, and the nodes work. The caller creates the timeout error.
            Self::Queued | Self::Held { .. } | Self::Missed { .. } | Self::Split => None,
        }
    }

    /// Takes the time since the refusal from what the lease of the holder has left.
    pub(super) fn count_down(&mut self, time: Duration) {
        if let Self::Held { refused, .. } = self {
            refused.left = refused.left.map(|left| left.saturating_sub(time));
        }
    }

    /// The label of the holder, if it is known.
    pub(crate) fn holder(&self) -> Option<&str> {
        match self {
            Self::Held { refused, .. } => refused.holder.as_ref().map(Label::as_str),
            _ => None,
        }
    }

    /// Describes the holder for messages, and returns the remaining time of its lease. `own` is a lease of this client
    /// on one of the keys. Its age is known, and belongs to the holder if it has all of the keys under the same label.
    pub(crate) fn describe_holder(
        &self,
        request: &Request,
        own: Option<&LeaseState>,
    ) -> (String, Option<Duration>) {
        let (refused, unsure) = match self {
            Self::Held { refused, evidence: Evidence::WithFailures { divided: true, .. } } => {
                (refused, ". Other nodes granted it or failed, so perhaps no client has a majority")
            }
            Self::Held { refused, .. } => (refused, ""),
            Self::Split => return ("no client won a majority (split vote)".into(), None),
            // Only a semaphore has other places.
            Self::Missed { .. } => {
                return ("other callers took the free permits first in each round".into(), None);
            }
            _ => return ("other callers in this process were first".into(), None),
        };
        let is_holder = |own: &&LeaseState| {
            let all = request.identity.iter().all(|key| own.keys().contains(key));
            all && Label::of_token(&own.claim.token).as_ref().map(Label::as_str) == self.holder()
        };
        let since = own.filter(is_holder).map_or_else(String::new, |own| {
            format!(", which acquired it {} ago", seconds(own.age()))
        });
        let by = self.holder().map_or_else(String::new, |label| format!(" by {label}{since}"));
        (request.primitive.describe(refused, &by) + unsure, refused.left)
    }
}

/// The places that more than `spare` nodes refused.
fn taken_in(votes: &Collect<Vote>, keys: usize, spare: usize) -> Places {
    let refuse =
        |at: &usize| refusals(votes).filter(|refused| refused.taken.has(*at)).count() > spare;
    (0..keys).filter(refuse).collect()
}

fn refusals(votes: &Collect<Vote>) -> impl Iterator<Item = &Refused> + Clone {
    votes.answers.iter().flatten().flatten().filter_map(|vote| match vote {
        Vote::Held(refused) => Some(&**refused),
        Vote::Granted(_) => None,
    })
}

/// Returns the label that most of the nodes that refused name. Nodes that name none count as one more candidate.
fn holder_in(votes: &Collect<Vote>) -> Option<&Label> {
    let named = refusals(votes).map(|refused| refused.holder.as_ref());
    let count = |label| named.clone().filter(|other| *other == label).count();
    named.clone().max_by_key(|label| (count(*label), label.is_some())).flatten()
}

/// Returns when a quorum may be free according to the TTLs of the holders, or `None` without a known end.
fn free_in(votes: &Collect<Vote>) -> Option<Duration> {
    // Without a known end it sorts last.
    let left = |refused: &Refused| refused.left.unwrap_or(Duration::MAX);
    let mut held: Vec<_> = refusals(votes).map(left).collect();
    held.sort_unstable();
    // A quorum is free once all but `spare` of the refusals have ended.
    let decisive = held.len().checked_sub(votes.tally.spare() + 1)?;
    let left = held[decisive];
    (left != Duration::MAX).then_some(left)
}

/// Returns a lease of this client on one of the keys. Permits count only if `owner` waits for itself, because others
/// may have the rest of them.
pub(super) fn own_lease(
    leases: &Leases,
    request: &Request,
    owner: Option<Owner>,
) -> Option<Arc<LeaseState>> {
    let primitive = &request.primitive;
    let is_own = |state: &LeaseState| owner.is_some() && state.owner.get() == owner.as_ref();
    let counts = |state: &LeaseState| state.is_held() && (primitive.is_whole() || is_own(state));
    // Searched by key, because one shared name is enough to wait for oneself.
    let held = |key: &String| leases.registry.on(key).into_iter().find(|state| counts(state));
    primitive.places(&request.identity).iter().find_map(held)
}

/// Returns the message part about a lease of this client that `owner` waits for.
pub(super) fn own_holder(
    own: Option<&LeaseState>,
    owner: Option<Owner>,
    primitive: &Primitive,
) -> String {
    own.map_or_else(String::new, |state| {
        let place = state.acquired_at();
        match owner.filter(|owner| state.owner.get() == Some(owner)) {
            Some(Owner(who, _)) => {
                let what = primitive.own_part();
                format!("; {who} already holds {what}{place}. {NOT_REENTRANT}")
            }
            None => format!("; this client holds it{place}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::error::NodeState;
    use crate::node::{Fault, Refused, Reply};
    use crate::quorum::Until;

    #[test]
    fn names_the_holder_with_most_votes() {
        let refused = |label: &&str| -> Reply<Vote> {
            let refused = Refused { holder: Label::parse(label), ..Refused::default() };
            Box::pin(ready(Ok(Vote::Held(Box::new(refused)))))
        };
        for (labels, holder) in [
            (&["a", "b", "b"][..], Some("b")),
            (&["b", "b", "a"], Some("b")),
            (&["b", "a", "b", "c", ""], Some("b")),
            (&["", "", "b"], None),
            (&["", "b"], Some("b")),
            (&[""], None),
            (&["a"], Some("a")),
        ] {
            let failed: Reply<Vote> = Box::pin(ready(Err(Fault::new("failed"))));
            let granted: Reply<Vote> = Box::pin(ready(Ok(Vote::Granted(None))));
            let mut replies: Vec<_> = labels.iter().map(refused).collect();
            replies.extend([failed, granted]);
            let mut votes = Collect::new(replies.into_iter(), |_| NodeState::Held);
            votes.until(Until::Complete, &SystemClock, SystemClock.now()).now_or_never().unwrap();
            assert_eq!(holder_in(&votes).map(Label::as_str), holder, "{labels:?}");
        }
    }
}
