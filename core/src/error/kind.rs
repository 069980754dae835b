//! What can go wrong, and the reasons of a loss: words that are the same in every language.
//!
//! `tests/vectors/errors.toml` holds every language to them.

use std::borrow::Cow;
use std::fmt;

use crate::spelling::spelled;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not acquired within `wait`: somebody else holds it, or the votes stayed split.
    ///
    /// Nothing is wrong: try again later, or wait for longer.
    Timeout,
    /// The lease ended without our release.
    ///
    /// Whatever it protected may be another's by now: stop.
    Lost,
    /// The operation needs a held lease, and its owner has released this one, or has detached from it.
    Released,
    /// Too many nodes are faults for a quorum to be possible.
    ///
    /// Nobody knows who holds the lock: it says nothing about another holder.
    Unavailable,
    /// A value broke a rule, or a URL names the wrong kind of server.
    ///
    /// Trying again cannot help.
    Invalid,
    /// A server lacks a feature that an option needs, or the key holds data of another type.
    ///
    /// Trying again cannot help.
    Unsupported,
    /// The client was closed.
    Closed,
}

impl ErrorKind {
    /// Equal in every language.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Closed => "closed",
        }
    }
}

/// What a node said, in one word: the same in every language.
///
/// ```
/// assert_eq!(redlock::NodeState::Held.as_str(), "held");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeState {
    /// It did what it was asked.
    Granted,
    /// Somebody has the key: to who asks for it, somebody else.
    Held,
    /// It was released, and stays for `min_hold`: nobody has it, and nobody has it until then.
    Kept,
    /// There was nothing to extend or to release.
    Missing,
    /// Nobody has the key.
    Free,
    /// It gave no answer that counts.
    Fault,
    /// The others had decided before it answered.
    Pending,
}

impl NodeState {
    /// The word in messages and in every language's `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Kept => "kept",
            Self::Missing => "missing",
            Self::Free => "free",
            Self::Fault => "fault",
            Self::Pending => "pending",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a lease ended without a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over before a renewal was confirmed.
    /// Others may have it from now on; whether anybody has is not known.
    Expired,
    /// Another owner's token is on the key.
    /// Somebody acquired it, or deleted and set it by hand.
    Taken,
    /// The key is gone.
    /// Deleted by hand or by `force_release`, flushed, evicted, or the node restarted without its data. A release that deletes
    /// nothing says so, too: by then the key may be another's.
    Missing,
    /// Fewer nodes than a quorum still have it.
    /// The rest lost it, so that others can make a quorum of their own.
    Quorum,
    /// It was held for `max_hold`.
    MaxHold,
    /// It belongs to the process this one was forked from.
    Forked,
    /// Its client was closed.
    Closed,
    /// Released by a call other than its owner's: `release_all`, `shutdown`, or another lease of its token.
    Revoked,
    /// A part of the library itself failed.
    /// Nothing would be renewed any more; it is logged, and a bug.
    Internal,
}

impl LossReason {
    /// The word used in messages and in every language's `reason`.
    ///
    /// ```
    /// assert_eq!(redlock::LossReason::MaxHold.as_str(), "max_hold");
    /// ```
    ///
    /// Part of the interface: programs compare it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::Missing => "missing",
            Self::Quorum => "quorum",
            Self::MaxHold => "max_hold",
            Self::Forked => "forked",
            Self::Closed => "closed",
            Self::Revoked => "revoked",
            Self::Internal => "internal",
        }
    }

    /// The reason as a message tells it.
    pub(super) fn explanation(self) -> Cow<'static, str> {
        let text = match self {
            Self::Expired => "its time was over before a renewal was confirmed",
            Self::Taken => "another owner's token is on the key",
            Self::Missing => "the key is gone: deleted, flushed, or the node lost its data",
            Self::Quorum => "fewer nodes than a quorum still have it",
            Self::MaxHold => return format!("it was held for {}", spelled("max_hold")).into(),
            Self::Forked => "it belongs to the parent process; a forked child holds nothing",
            Self::Closed => "its client was closed",
            Self::Revoked => {
                let released = spelled("release_all");
                let text = "shutdown or another lease of its token released it";
                return format!("{released}, {text}").into();
            }
            Self::Internal => "redlock's own task for leases failed; please report it with the log",
        };
        text.into()
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
