//! Fencing tokens as one node keeps them: what is stored next, and what cannot have been stored.
//!
//! The rule is `max(stored + 1, min(max(proposed, now - slack), now + slack))`. The client's clock makes nodes
//! agree, so that most tokens stand after one round; the node's own clock bounds the proposal, so that no
//! client can move the tokens far. `acquire.lua` and `extend.lua` say the same to a server. What tokens
//! promise: docs/fencing.md.

use std::time::Duration;

use super::fault::Fault;

/// How far a proposal may be from a node's own clock.
///
/// The more, the further clients' clocks may be apart and a token still stand after one round trip. The less, the
/// further nodes' clocks may be across a restart without data: by `restart_guard` less twice this.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// No fencing token is this large: above it the scripts' numbers, and JavaScript's, lose digits.
/// In microseconds it is the year 2255.
const ABOVE: u64 = 1 << 53;
/// Further ahead of a client's clock, in microseconds, than any clock of a node or another client: a hundred years,
/// as a clock may have begun in 1970.
/// Beyond that somebody wrote the key by hand, or memory failed: one more would be everybody's next token.
const LEAP: u64 = 100 * 31_557_600 * 1_000_000;
/// What the fault of a node says that keeps, or answers, a token which no rule gives.
pub(crate) const IMPOSSIBLE: &str =
    "no client can have stored the fencing token that it answers: docs/fencing.md, \"Repair\"";

/// What becomes of the fencing token that a node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    /// There is none.
    Off,
    /// A new one, larger than the last: this one, in microseconds of the client's clock, if the node's agrees.
    Propose(u64),
    /// The last, or this one if it is larger.
    AtLeast(u64),
}

impl Fencing {
    /// What a lease with this token asks for after its first round.
    pub(crate) fn keep(token: Option<u64>) -> Self {
        token.map_or(Self::Off, Self::AtLeast)
    }

    /// What a node keeps instead of `stored`, by its own clock; both in microseconds. A fault where no client can have
    /// stored that: nothing is built on it.
    pub(crate) fn next(self, stored: u64, now: u64) -> Result<Option<u64>, Fault> {
        let slack = u64::try_from(SLACK.as_micros()).unwrap_or(u64::MAX);
        let next = match self {
            Self::Off => return Ok(None),
            // Saturating: clocks and stored numbers may be anything.
            Self::Propose(wanted) if stored <= wanted.max(now).saturating_add(LEAP) => {
                // Larger than the last in any case, even where both clocks went back.
                wanted.clamp(now.saturating_sub(slack), now + slack).max(stored + 1)
            }
            // Only raised: a lease that is renewed late must not take back what a later one was given.
            Self::AtLeast(token) => stored.max(token),
            // Beyond belief: refused below, and nothing is written.
            Self::Propose(_) => ABOVE,
        };
        if next < ABOVE { Ok(Some(next)) } else { Err(Fault::new(IMPOSSIBLE)) }
    }

    /// Whether a node can have answered this by the rules; one that says something else must not be believed, for all
    /// later tokens would have to be larger.
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

    /// A year or so after 2026.
    const NOW: u64 = 1_800_000_000_000_000;

    #[test]
    fn nothing_is_built_on_what_no_client_can_have_stored() {
        let most = NOW + LEAP;
        for (stored, asked, kept) in [
            (0, Fencing::Propose(NOW), Some(NOW)),
            (NOW + 7, Fencing::Propose(NOW), Some(NOW + 8)),
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
