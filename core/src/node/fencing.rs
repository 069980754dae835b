//! Computes the fencing token that a node stores next, and rejects values that no client can have stored.
//!
//! The rule is `max(stored + 1, min(max(proposed, now - slack), now + slack))`. The client proposes its clock's time,
//! so that the nodes agree and most tokens are final after one round. The node limits the proposal by its own clock, so
//! that no client can move the tokens far. `acquire::round` settles tokens that differ. `acquire.lua` and `extend.lua`
//! implement the same rule on a server. See the page Fencing tokens of the documentation for the guarantees of tokens.

use std::time::Duration;

use super::fault::Fault;

/// The maximum distance of a proposal from the node's own clock.
///
/// With a larger value, tokens need one round trip even if the clocks of clients differ more. With a smaller value, the
/// clocks of nodes may differ more across a restart without data. The limit for that is `restart_guard` minus twice
/// this value.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// Every fencing token is smaller than this. Above it, the numbers of Lua scripts and of JavaScript lose precision. In
/// microseconds it is the year 2255.
const ABOVE: u64 = 1 << 53;
/// The maximum distance of a stored token from a client's clock, in microseconds. It is a hundred years, because the
/// clock of a node or client may have started in 1970. A larger token was written by hand or comes from corrupt memory.
/// It must not become the base of all later tokens.
const LEAP: u64 = 100 * 31_557_600 * 1_000_000;
/// The error of a node that stores or returns a token that the rule cannot produce.
pub(crate) const IMPOSSIBLE: &str = "it returned a fencing token that no client can have stored. See the page \
     Fencing tokens#repair of the documentation";

/// How a command treats the fencing token of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    Off,
    /// Stores a new token that is larger than the last one. The value is the proposal, in microseconds of the client's
    /// clock.
    Propose(u64),
    /// Keeps the last token, or stores this one if it is larger.
    AtLeast(u64),
}

impl Fencing {
    /// Returns what a lease with this token sends after its first round.
    pub(crate) fn after_first_round(token: Option<u64>) -> Self {
        token.map_or(Self::Off, Self::AtLeast)
    }

    /// Returns what a node stores instead of `stored`, by its own clock, both in microseconds. Fails if no client can
    /// have stored that value, so that no token builds on it.
    pub(crate) fn next(self, stored: u64, now: u64) -> Result<Option<u64>, Fault> {
        let slack = u64::try_from(SLACK.as_micros()).unwrap_or(u64::MAX);
        let next = match self {
            Self::Off => return Ok(None),
            // Saturating, because clocks and stored numbers may have any value.
            Self::Propose(wanted) if stored <= wanted.max(now).saturating_add(LEAP) => {
                // Always larger than the last token, even if both clocks went back.
                wanted.clamp(now.saturating_sub(slack), now.saturating_add(slack)).max(stored + 1)
            }
            // Only ever raised: a late renewal must not undo the token of a later lease.
            Self::AtLeast(token) => stored.max(token),
            // An implausible stored value. It is rejected below, and nothing is written.
            Self::Propose(_) => ABOVE,
        };
        if next < ABOVE { Ok(Some(next)) } else { Err(Fault::new(IMPOSSIBLE)) }
    }

    /// Whether a node can have returned this token by the rule. Any other reply must be rejected, because all later
    /// tokens would have to be larger.
    pub(crate) fn can_be(self, answer: u64) -> bool {
        match self {
            Self::Propose(wanted) => answer < ABOVE && answer <= wanted.saturating_add(LEAP),
            Self::Off | Self::AtLeast(_) => answer < ABOVE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About a year after 2026.
    const NOW: u64 = 1_800_000_000_000_000;

    #[test]
    fn rejects_impossible_stored_tokens() {
        let (most, slack) = (NOW + LEAP, u64::try_from(SLACK.as_micros()).unwrap());
        for (stored, asked, kept) in [
            (0, Fencing::Propose(NOW), Some(NOW)),
            (NOW + 7, Fencing::Propose(NOW), Some(NOW + 8)),
            (0, Fencing::Propose(2 * NOW), Some(NOW + slack)),
            (0, Fencing::Propose(1), Some(NOW - slack)),
            (most, Fencing::Propose(NOW), Some(most + 1)),
            (most + 1, Fencing::Propose(NOW), None),
            (ABOVE - 1, Fencing::Propose(NOW), None),
            (u64::MAX, Fencing::Propose(NOW), None),
            (ABOVE - 1, Fencing::AtLeast(NOW), Some(ABOVE - 1)),
            (ABOVE, Fencing::AtLeast(NOW), None),
            (u64::MAX, Fencing::AtLeast(NOW), None),
        ] {
            assert_eq!(asked.next(stored, NOW).ok().flatten(), kept, "{stored} {asked:?}");
        }
        assert_eq!(Fencing::Off.next(u64::MAX, NOW), Ok(None));
    }
}
