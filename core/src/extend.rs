//! The extend round and its one verdict: renewals, checks, `extend` and `attach` all ask this way.

use crate::clock::{Clock, Instant};
use crate::error::LossReason;
use crate::node::Extension;
use crate::quorum::Poll;

/// What the nodes' answers mean for the lease.
pub(crate) enum Verdict {
    /// A quorum has it, for as long as was asked.
    Extended,
    /// So many nodes said that they have it no more that no quorum is left.
    Gone(LossReason),
    /// Neither: too many gave no answer. Time alone ends the lease.
    Unknown,
}

/// Listens until a quorum confirmed, else to every answer that comes in time: one dead node must not hide that all
/// who live say no.
pub(crate) async fn verdict(
    poll: &mut Poll<Extension>,
    clock: &dyn Clock,
    until: Instant,
) -> Verdict {
    poll.settle(clock, until).await;
    if poll.tally.met() {
        Verdict::Extended
    } else if poll.tally.denied() {
        Verdict::Gone(loss_reason(poll))
    } else {
        Verdict::Unknown
    }
}

fn loss_reason(poll: &Poll<Extension>) -> LossReason {
    let mut answers = poll.answers.iter().flatten().flatten();
    if answers.clone().any(|answer| *answer == Extension::Taken) {
        LossReason::Taken
    } else if answers.any(|answer| *answer == Extension::Extended) {
        LossReason::Quorum
    } else {
        LossReason::Missing
    }
}
