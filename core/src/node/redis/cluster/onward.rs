//! What becomes of a command that a server of a cluster sent on: pure, and the simulation's, too.

use std::time::Duration;

use super::super::in_flight::{Detour, Purpose};
use crate::clock::Instant;

/// So many servers may send a command on at once; after that each waits, while their views of the cluster meet.
const AT_ONCE: u32 = 4;
/// The shortest wait then, and where a slot is half here and half there.
pub(crate) const MOMENT: Duration = Duration::from_millis(20);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(1);

/// Whether it goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// Nobody waits for it: its delete may be on its way, and nothing of it may come behind that.
    Dropped,
    /// Its time is over.
    Late,
    /// To where it was sent on.
    AtOnce,
    /// The same, after a [`pause`].
    Later,
}

/// How long a command waits: as long again as it has been on its way. A cluster that is down for long is asked rarely.
pub(crate) fn pause(detour: &Detour, now: Instant) -> Duration {
    let so_far = detour.since.map_or(Duration::ZERO, |since| now.since(since));
    so_far.clamp(MOMENT, LONGEST)
}

/// It has waited, and may be sent on at once again: once.
pub(crate) fn rested(detour: &mut Detour) {
    detour.hops = AT_ONCE - 1;
}

/// What becomes of a command that was sent on once more. A delete's time is that of what it deletes.
///
/// `asked`: the slot is on its way, and `ASK` said where to. `ASKING` belongs to no migration: a vote that is sent on in one
/// may come in the next to the same server, and be granted beside the holder's key, which has yet to come over. So what
/// makes a key waits until the slot has arrived.
pub(crate) fn onward(
    detour: &mut Detour,
    purpose: &mut Purpose,
    (timeout, heard): (Duration, bool),
    asked: bool,
    now: Instant,
) -> Onward {
    detour.hops += 1;
    let since = *detour.since.get_or_insert(now);
    let until = match purpose {
        // From its own first detour, too: what was paid behind a frozen server's thaw may be older than any key.
        Purpose::Delete { owed, until, .. } => {
            (*until.get_or_insert(now + *owed)).max(since + *owed)
        }
        _ if !heard => return Onward::Dropped,
        _ => since + timeout,
    };
    let makes = matches!(purpose, Purpose::FirstVote { .. } | Purpose::Heal(_));
    match detour.hops {
        _ if now >= until => Onward::Late,
        _ if asked && makes => Onward::Later,
        ..=AT_ONCE => Onward::AtOnce,
        _ => Onward::Later,
    }
}
