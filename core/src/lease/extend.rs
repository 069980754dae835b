//! The extend round and its verdict. Renewals, checks, `extend`, `attach` and fencing all use it.
//!
//! The replies to an extend count as votes. A quorum of them moves the deadline. If a quorum is no longer possible, the
//! lease ends. Anything in between changes nothing. The callers decide when to send a round.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::leases::Leases;
use super::state::{Commands, LeaseState};
use crate::clock::{Clock, Instant};
use crate::error::{Error, LossReason, Result, seconds};
use crate::node::{Claim, Extension, Fencing, Proof, VoteParams};
use crate::options::lock::{LONG_TTL, Request};
use crate::quorum::{Collect, Nodes, Until, Validity};
use crate::runtime::try_lock;
use crate::telemetry::log;

impl Leases {
    /// Logs what may be a mistake in a request although it is allowed, once for each lock.
    pub(crate) fn warn_of_mistakes(&self, request: &Request) {
        self.warn_of_ttl(request.options.ttl, || request.key());
        if let Some(doubt) = &request.doubt
            && self.doubtful.is_new(request.key())
        {
            log::event!(
                Warn, Acquire, { key: request.key() }, "the name may be a mistake: {doubt}", doubt = doubt
            );
        }
    }

    /// Logs a TTL that is long enough to suggest a wrong unit.
    fn warn_of_ttl(&self, ttl: Duration, key: impl FnOnce() -> String) {
        if ttl > LONG_TTL
            && ttl.as_secs() > self.longest.fetch_max(ttl.as_secs(), Ordering::Relaxed)
        {
            log::event!(
                Warn, Acquire, { key: key(), ttl: seconds(ttl) }, "the ttl is above one hour. Check its unit"
            );
        }
    }
}

/// What the replies mean for the lease.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    /// A quorum extended the lease for the requested time.
    Extended,
    /// So few nodes still have the lease that a quorum is impossible.
    Gone(LossReason),
    /// Too few nodes replied. Only the deadline ends the lease.
    Unknown,
}

/// An extend round under way.
pub(crate) struct ExtendRound {
    pub(crate) votes: Collect<Extension>,
    nodes: Arc<Nodes>,
    /// How long a node may take to reply before it counts as failed.
    timeout: Duration,
    /// The new validity of the lease, if a quorum confirms the round.
    pub(crate) validity: Validity,
    /// Whether the round only checks the lease and leaves the deadline unchanged.
    check: bool,
}

impl ExtendRound {
    /// Sends the extend to every node immediately.
    pub(crate) fn send(
        nodes: Arc<Nodes>,
        claim: &Claim,
        validity: Validity,
        params: VoteParams,
    ) -> Self {
        let VoteParams { timeout, check, .. } = params;
        Self { votes: nodes.extend(claim, params), nodes, timeout, validity, check }
    }

    /// When replies stop counting.
    ///
    /// It is measured from the start of the validity, because later replies could not extend the lease either.
    pub(crate) fn until(&self) -> Instant {
        self.validity.started + self.timeout
    }

    /// Waits until a quorum confirmed the round, or until every reply arrived or timed out.
    ///
    /// A single node that does not reply must not hide that all other nodes refused.
    pub(crate) async fn verdict(&mut self, clock: &dyn Clock) -> Verdict {
        let until = self.until();
        self.votes.until(Until::Judged, clock, until).await;
        if self.votes.tally.met() {
            Verdict::Extended
        } else if self.votes.tally.denied() {
            Verdict::Gone(self.loss_reason())
        } else {
            Verdict::Unknown
        }
    }

    /// Whether a quorum confirmed the round. Stops waiting as soon as the result is certain.
    pub(crate) async fn is_confirmed(&mut self, clock: &dyn Clock, until: Instant) -> bool {
        let until = until.min(self.until());
        self.votes.until(Until::Decided, clock, until).await;
        self.votes.tally.met()
    }

    /// Reports another owner's token first. Otherwise it reports a lost quorum if some nodes still have the lease, and
    /// a missing key if none has it.
    fn loss_reason(&self) -> LossReason {
        let mut answers = self.votes.answers.iter().flatten().flatten();
        if answers.clone().any(|answer| *answer == Extension::Taken) {
            LossReason::Taken
        } else if answers.any(|answer| *answer == Extension::Extended) {
            LossReason::Quorum
        } else {
            LossReason::Missing
        }
    }
}

/// Sends an extend by `ttl` from now, limited by `max_hold`. Returns `None` if the lease has ended.
///
/// A `check` requests the remaining time, and leaves the deadline unchanged.
///
/// Dropping the round is harmless: the keys may then live longer than the lease assumes, but never shorter.
pub(crate) fn send(state: &LeaseState, ttl: Duration, check: bool) -> Option<ExtendRound> {
    let mut commands = state.held_commands()?;
    let options = &state.request.options;
    let validity = Validity::new(state.now(), ttl, options.hold_end(state.acquired));
    let key_ttl = validity.key_ttl(options, state.acquired);
    let (timeout, fencing) = prepare_request(state, &mut commands, key_ttl);
    // This round replaces the first votes that are not sent yet.
    let votes = std::mem::take(&mut commands.votes);
    let nodes = commands.nodes.clone()?;
    // Unlocked first: sending allocates, and the system may suspend this thread there.
    drop(commands);
    drop(votes);
    if !check {
        state.own.leases.warn_of_ttl(ttl, || state.key());
    }
    let params = VoteParams { check, ..VoteParams::later(key_ttl, timeout, fencing) };
    Some(ExtendRound::send(nodes, &state.claim, validity, params))
}

/// Returns how long to wait for replies, and how the round treats the fencing token. Every command for a held lease
/// keeps the token from expiring.
///
/// The timeout is short enough for another renewal before the deadline, even if the TTL was shortened below what
/// `node_timeout` was chosen for.
fn prepare_request(
    state: &LeaseState,
    commands: &mut Commands,
    ttl: Duration,
) -> (Duration, Fencing) {
    // Updated before the reply arrives, because the reply may be lost. A pending delete must be kept for as long as the
    // keys can live.
    commands.longest = commands.longest.max(ttl);
    let options = &state.request.options;
    let timeout = options.node_timeout().min(options.vote_share(state.ttl()));
    (timeout, Fencing::after_first_round(state.fence))
}

/// Waits for the verdict and applies it to the lease.
pub(crate) async fn judge(state: &LeaseState, round: &mut ExtendRound) -> Verdict {
    let verdict = round.verdict(&*state.own.leases.clock).await;
    round.nodes.record_outages(&round.votes, Some(round.timeout), Some(Proof::Write));
    match verdict {
        // If the lease ended while the round was under way, it stays ended regardless of the replies.
        Verdict::Extended if !round.check => state.confirm(round.validity),
        Verdict::Gone(reason) => state.lose(reason),
        Verdict::Extended | Verdict::Unknown => {}
    }
    verdict
}

/// Extends the lease to `ttl` after the round was `sent`. Later renewals use the same TTL.
pub(crate) async fn extend(state: Arc<LeaseState>, sent: Option<ExtendRound>) -> Result<()> {
    let Some(mut round) = sent else {
        return Err(state.why_over());
    };
    match judge(&state, &mut round).await {
        Verdict::Extended => {
            if !state.is_held() {
                return Err(state.why_over());
            }
            // Set only after the confirmation. With a longer TTL that was never confirmed, renewals would come too late
            // for the existing keys.
            state.set_ttl(round.validity.wanted);
            Ok(())
        }
        Verdict::Gone(_) => Err(state.why_over()),
        // A release in the meantime explains the missing confirmation.
        Verdict::Unknown if !state.is_held() => Err(state.why_over()),
        Verdict::Unknown => {
            let nodes = round.nodes.report(&round.votes, round.timeout);
            Err(Error::unavailable(&state.key(), "not extended", nodes))
        }
    }
}

/// Restores the keys on nodes that lacked them in both rounds, each of which a quorum confirmed.
///
/// The pause between the two rounds matters: a key that is restored immediately could outlive a delete that is on its
/// way to every node. The reply is ignored, because the next renewal checks the node again.
pub(crate) fn heal(state: &LeaseState, rounds: [&ExtendRound; 2]) {
    let Some(mut commands) = state.held_commands() else { return };
    // Locked until everything is sent, so that no heal follows the deletes of a release. While the commands are locked,
    // the lease is not released, and nothing else locks this.
    let Some(_healing) = try_lock(&state.healing) else { return };
    let left = state.last_deadline().since(state.now());
    let (timeout, fencing) = prepare_request(state, &mut commands, left);
    drop(commands);
    let params = VoteParams::later(left, timeout, fencing);
    let missing = |round: &ExtendRound, at: usize| {
        matches!(round.votes.answers[at], Some(Ok(Extension::Missing)))
    };
    for (at, node) in rounds[0].nodes.list.iter().enumerate() {
        // Only nodes that report a missing key are healed. A node that timed out or reports another token is not
        // touched.
        if rounds.iter().all(|round| missing(round, at)) {
            drop(node.acquire(&state.claim, params));
        }
    }
}
