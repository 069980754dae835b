//! Error kinds and loss reasons, which are the same in every language.
//!
//! `tests/vectors/errors.toml` checks this.

use std::borrow::Cow;
use std::fmt;

use crate::text::spelled;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not acquired within `wait`: another owner holds the lock, or no client won a majority (split vote).
    ///
    /// Try again later, or wait longer.
    ///
    /// See the page Troubleshooting#timeout of the documentation for causes and remedies.
    Timeout,
    /// The lease ended without a release by its owner.
    ///
    /// Another client may hold the lock now, so stop using the protected resource.
    ///
    /// See the page Troubleshooting#lost-expired of the documentation, and its following sections for other reasons.
    Lost,
    /// The operation needs a held lease, but the owner released this one or detached it.
    ///
    /// See the page Troubleshooting#released of the documentation for causes and remedies.
    Released,
    /// Too many nodes failed for a quorum to be possible, for all of `wait`. Without a `wait`, for `unavailable_after`.
    ///
    /// It is unknown whether the lock is held.
    ///
    /// See the page Troubleshooting#unavailable of the documentation for causes and remedies.
    Unavailable,
    /// A value breaks a rule, or a URL names the wrong kind of server.
    ///
    /// Retrying does not help.
    ///
    /// See the page Troubleshooting#invalid of the documentation for causes and remedies.
    Invalid,
    /// A server lacks a feature that an option needs, or the key holds data of another type.
    ///
    /// Retrying does not help.
    ///
    /// See the page Troubleshooting#unsupported of the documentation for causes and remedies.
    Unsupported,
    /// The client was closed.
    ///
    /// See the page Troubleshooting#closed of the documentation for causes and remedies.
    Closed,
}

impl ErrorKind {
    /// The [`code`](crate::Error::code) of the errors of this kind.
    ///
    /// ```
    /// assert_eq!(redlock::ErrorKind::Timeout.as_str(), "timeout");
    /// ```
    pub fn as_str(self) -> &'static str {
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

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of one node, as one word that is the same in every language.
///
/// ```
/// assert_eq!(redlock::NodeState::Held.as_str(), "held");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeState {
    /// The node did what was requested.
    Granted,
    /// An owner holds the key. For an acquire, this is another owner.
    Held,
    /// The lock was released and is not held, but its key stays until `min_hold` has passed. Until then it cannot be
    /// acquired.
    Kept,
    /// There was nothing to extend or to release.
    Missing,
    /// The key does not exist.
    Free,
    /// The node failed, or sent no usable reply.
    Fault,
    /// The result was decided before this node replied, by the other nodes or by the end of `wait`.
    Pending,
}

impl NodeState {
    /// The word in messages, and in every language's `state`.
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
///
/// The page Troubleshooting of the documentation has causes and remedies for each reason, under `lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease expired before a renewal was confirmed. Another client may hold the lock now.
    Expired,
    /// The key has the token of another owner, which acquired the lock or set the key manually.
    Taken,
    /// The key is gone.
    ///
    /// It was deleted manually or by `force_release`, flushed or evicted, or the node restarted without its data. A
    /// release that finds nothing to delete also reports this, although the key may then belong to another owner.
    Missing,
    /// Fewer nodes than a quorum still have the key, so other clients can win a quorum.
    Quorum,
    /// The lease was held for `max_hold`.
    MaxHold,
    /// The lease belongs to the parent of this forked process.
    Forked,
    /// The client was closed.
    Closed,
    /// The lease was released by `release_all`, by `shutdown`, or by another lease with the same token.
    Revoked,
    /// An internal task of the library failed and can renew nothing. This is a bug, unless the program closed the
    /// descriptors of the library (`os.closerange`, `closefrom`). It is logged.
    Internal,
}

impl LossReason {
    /// In the order of their discriminants.
    pub(crate) const ALL: [Self; 9] = [
        Self::Expired,
        Self::Taken,
        Self::Missing,
        Self::Quorum,
        Self::MaxHold,
        Self::Forked,
        Self::Closed,
        Self::Revoked,
        Self::Internal,
    ];

    /// The word in messages, and in every language's `reason`.
    ///
    /// ```
    /// assert_eq!(redlock::LossReason::MaxHold.as_str(), "max_hold");
    /// ```
    ///
    /// The words are part of the public interface, so programs may compare them.
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

    /// The reason as messages explain it.
    pub(super) fn explanation(self) -> Cow<'static, str> {
        let text = match self {
            Self::Expired => "it expired before a renewal was confirmed",
            Self::Taken => "the key has the token of another owner",
            Self::Missing => "the key is gone (deleted, flushed, or the node lost its data)",
            Self::Quorum => "fewer nodes than a quorum still have it",
            Self::MaxHold => return format!("it was held for {}", spelled("max_hold")).into(),
            Self::Forked => "it belongs to the parent process. A forked child holds no leases",
            Self::Closed => "its client was closed",
            Self::Revoked => {
                let released = spelled("release_all");
                let text = "shutdown or another lease with its token released it";
                return format!("{released}, {text}").into();
            }
            Self::Internal => {
                "an internal task of redlock failed, as the log says. Please report it, unless the program closed \
                 redlock's descriptors"
            }
        };
        text.into()
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
