//! One error type, one code per kind, the same codes in every language.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::spelling::spelled;
use crate::text::{escaped, shown};

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not acquired within `wait`: somebody else holds it, or the votes stayed split.
    Timeout,
    /// The lease ended without our release.
    Lost,
    /// Too many nodes are faults for a quorum to be possible.
    Unavailable,
    /// A value broke a rule; nothing was sent.
    Invalid,
    /// The client was closed.
    Closed,
}

/// Why a lease ended without a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over before a renewal was confirmed.
    Expired,
    /// Another owner's token is on the key.
    Taken,
    /// The key is gone.
    Missing,
    /// Fewer nodes than a quorum still have it.
    Quorum,
    /// It was held for `max_hold`.
    MaxHold,
    /// It belongs to the process this one was forked from.
    Forked,
    /// Its client was closed.
    Closed,
    /// Given back under whoever still held it: by `release_all`, `shutdown`, or another lease of its token.
    Released,
    /// A part of the library itself failed.
    Internal,
}

impl LossReason {
    /// The word used in messages and in every language's `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::Missing => "missing",
            Self::Quorum => "quorum",
            Self::MaxHold => "max_hold",
            Self::Forked => "forked",
            Self::Closed => "closed",
            Self::Released => "released",
            Self::Internal => "internal",
        }
    }

    fn explanation(self) -> Cow<'static, str> {
        let text = match self {
            Self::Expired => "its time was over before a renewal was confirmed",
            Self::Taken => "another owner's token is on the key",
            Self::Missing => "the key is gone: deleted, flushed, or the node lost its data",
            Self::Quorum => "fewer nodes than a quorum still have it",
            Self::MaxHold => return format!("it was held for {}", spelled("max_hold")).into(),
            Self::Forked => "it belongs to the parent process; a forked child holds nothing",
            Self::Closed => "its client was closed",
            Self::Released => {
                let released = spelled("release_all");
                let text = "shutdown or another lease of its token gave it back";
                return format!("{released}, {text}").into();
            }
            Self::Internal => "redlock's own task for leases failed; please report it with the log",
        };
        text.into()
    }
}

/// What one node had to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's URL without its password.
    pub url: String,
    /// `granted`, `held` by another, `missing` (there was nothing to extend or release), `fault`, or `pending`: the others
    /// had decided before it answered.
    pub state: &'static str,
    /// The fault's own text.
    pub error: Option<String>,
}

/// Why a lock was not acquired, kept, extended or released.
#[derive(Clone, Debug)]
pub struct Error(Box<Repr>);

/// A library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug)]
struct Repr {
    kind: ErrorKind,
    message: String,
    resource: Option<String>,
    waited: Option<Duration>,
    remaining: Option<Duration>,
    reason: Option<LossReason>,
    nodes: Vec<NodeReport>,
}

impl Error {
    fn new(kind: ErrorKind, message: &str) -> Self {
        Self(Box::new(Repr {
            kind,
            message: escaped(message.chars()),
            resource: None,
            waited: None,
            remaining: None,
            reason: None,
            nodes: Vec::new(),
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, &message.into())
    }

    pub(crate) fn closed(key: &str) -> Self {
        Self::new(ErrorKind::Closed, &format!("{}: the client is closed", shown(key))).about(key)
    }

    pub(crate) fn lost(key: &str, reason: LossReason, ago: Duration) -> Self {
        let (shown, ago) = (shown(key), seconds(ago));
        let text = format!("{shown}: the lease was lost {ago} ago: {}", reason.explanation());
        let mut error = Self::new(ErrorKind::Lost, &text).about(key);
        error.0.reason = Some(reason);
        error
    }

    pub(crate) fn released(key: &str) -> Self {
        let text = format!("{}: the lease was released; nothing is held", shown(key));
        Self::new(ErrorKind::Lost, &text).about(key)
    }

    pub(crate) fn timeout(key: &str, waited: Duration, why: &str) -> Self {
        let text = format!("{}: not acquired within {}: {why}", shown(key), seconds(waited));
        let mut error = Self::new(ErrorKind::Timeout, &text).about(key);
        error.0.waited = Some(waited);
        error
    }

    pub(crate) fn unavailable(key: &str, what: &str, nodes: Vec<NodeReport>) -> Self {
        use fmt::Write;
        let faults = nodes.iter().filter(|node| node.state == "fault").count();
        let mut text = format!("{}: {what}: {faults} of {} nodes failed", shown(key), nodes.len());
        for node in &nodes {
            let _ = match &node.error {
                Some(error) => write!(text, "; {}: {error}", node.url),
                None => write!(text, "; {}: {}", node.url, node.state),
            };
        }
        let mut error = Self::new(ErrorKind::Unavailable, &text).about(key);
        error.0.nodes = nodes;
        error
    }

    /// Nothing can be asked: the system has no thread, or no file descriptor, for the background thread.
    pub(crate) fn no_thread(key: &str, error: &std::io::Error) -> Self {
        let text = format!("{}: the background thread cannot be started: {error}", shown(key));
        Self::new(ErrorKind::Unavailable, &text).about(key)
    }

    pub(crate) fn about(mut self, key: &str) -> Self {
        self.0.resource = Some(key.to_owned());
        self
    }

    pub(crate) fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.0.remaining = remaining;
        self
    }

    pub(crate) fn with_waited(mut self, waited: Duration) -> Self {
        self.0.waited = Some(waited);
        self
    }

    /// What went wrong, to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The kind's code, equal in every language: `timeout`, `lost`, `unavailable`, `invalid` or `closed`.
    pub fn code(&self) -> &'static str {
        match self.0.kind {
            ErrorKind::Timeout => "timeout",
            ErrorKind::Lost => "lost",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Closed => "closed",
        }
    }

    /// The Redis key the error is about.
    pub fn resource(&self) -> Option<&str> {
        self.0.resource.as_deref()
    }

    /// How long the acquire had waited.
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// What is left of the holder's lease, where a node told it.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.remaining
    }

    /// Why the lease was lost.
    pub fn loss_reason(&self) -> Option<LossReason> {
        self.0.reason
    }

    /// Why the lease was lost, as the word every language uses.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason.map(LossReason::as_str)
    }

    /// What each node had to say, where the nodes are the cause.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// `1.234 s`, as every message writes a time.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
