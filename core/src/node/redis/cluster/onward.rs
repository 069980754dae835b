//! Decides what to do with a redirected command. Pure, and used by the simulation too.

use std::time::Duration;

use super::super::protocol::{Detour, Purpose};
use crate::clock::Instant;

/// How many servers may redirect a command immediately. Afterwards each redirect waits, so that the servers' views can
/// converge.
const AT_ONCE: u32 = 4;
/// The shortest wait. It also applies while a slot is migrating.
pub(crate) const MOMENT: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// What to do with a redirected command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// Dropped, because no caller waits for it. Its delete may be under way, and nothing of it may arrive after that.
    Dropped,
    /// Its time is over.
    Late,
    /// Send it to the new server immediately.
    AtOnce,
    /// Send it to the new server after a [`pause`].
    Later,
}

/// Returns how long a command waits: as long as it has been under way, so that a cluster that is down for long gets few
/// commands.
pub(crate) fn pause(detour: &Detour, now: Instant) -> Duration {
    let so_far = detour.since.map_or(Duration::ZERO, |since| now.since(since));
    so_far.clamp(MOMENT, LONGEST)
}

/// Allows one immediate redirect after the wait.
pub(crate) fn rested(detour: &mut Detour) {
    detour.hops = AT_ONCE - 1;
}

/// Decides about a redirected command. The time limit of a delete is that of its keys.
///
/// `asked` means that the slot is migrating and `ASK` named the target. `ASKING` is not tied to a migration. A vote
/// that is redirected during one migration may reach the same server during the next one. It would then be granted
/// while the holder's key has not arrived yet. Therefore commands that create a key wait until the slot has moved.
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
        // Measured from its first redirect as well. A delete that a frozen server redirected later may be older than
        // every key.
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
