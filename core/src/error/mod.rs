//! One error type, one code per kind, the same codes in every language.
//!
//! An error says what to do in its kind and what happened in its text. The text names the key, is one line, and
//! repeats no password: nodes' own words come redacted.

mod kind;

use std::fmt;
use std::time::Duration;

use crate::text::{escaped, shown};

pub use kind::{ErrorKind, LossReason};

/// What one node had to say.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let client = redlock::Redlock::builder(["redis://127.0.0.1:1"]).build()?;
/// let error = client.lock("job").try_acquire().await.unwrap_err();
/// let redlock::NodeReport { url, state, error } = &error.nodes()[0];
/// assert_eq!((url.as_str(), *state, error.is_some()), ("redis://127.0.0.1:1", "fault", true));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's URL without its password.
    pub url: String,
    /// `granted`, `held` by another, `missing` (there was nothing to extend or release), `fault`, or `pending`: the
    /// others had decided before it answered.
    pub state: &'static str,
    /// The fault's own text.
    ///
    /// `None` where the state says all; a server's words are cut at 200 characters and without the password.
    pub error: Option<String>,
}

/// Why a lock was not acquired, kept, extended or released.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let lease = client.lock("job").acquire().await?;
/// let error = client.lock("job").wait(std::time::Duration::ZERO).acquire().await.unwrap_err();
/// assert_eq!((error.kind(), error.code()), (redlock::ErrorKind::Timeout, "timeout"));
/// assert_eq!((error.resource(), error.nodes().len()), (Some("lock:job"), 0));
/// assert!(error.waited().is_some() && error.remaining().is_some());
/// assert!(error.reason().is_none() && error.loss_reason().is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Repr>);

/// A library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug)]
struct Repr {
    kind: ErrorKind,
    /// Escaped: no line of its own.
    message: String,
    /// As it is in Redis, not as messages show it.
    resource: Option<String>,
    /// How long the caller waited.
    waited: Option<Duration>,
    /// How long the present holder's lease still is, where that is known.
    remaining: Option<Duration>,
    /// Why a lease was lost.
    reason: Option<LossReason>,
    /// What each node said, in the order of the client's list.
    nodes: Vec<NodeReport>,
}

impl Error {
    /// Boxed: results of every call are as small as a pointer, and errors are rare.
    fn new(kind: ErrorKind, message: &str) -> Self {
        Self(Box::new(Repr {
            kind,
            // Here once, whoever wrote it: names and keys come from callers.
            message: escaped(message.chars()),
            resource: None,
            waited: None,
            remaining: None,
            reason: None,
            nodes: Vec::new(),
        }))
    }

    /// A value broke a rule, which is the message.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, &message.into())
    }

    /// The client was closed.
    pub(crate) fn closed(key: &str) -> Self {
        Self::new(ErrorKind::Closed, &format!("{}: the client is closed", shown(key))).about(key)
    }

    /// The lease was lost, for this reason and so long ago.
    ///
    /// How long ago counts: a body that hears of it late has run without its lock for so long.
    pub(crate) fn lost(key: &str, reason: LossReason, ago: Duration) -> Self {
        let (shown, ago) = (shown(key), seconds(ago));
        let text = format!("{shown}: the lease was lost {ago} ago: {}", reason.explanation());
        let mut error = Self::new(ErrorKind::Lost, &text).about(key);
        error.0.reason = Some(reason);
        error
    }

    /// The lease is over as its owner wished: nothing more can be done with it.
    ///
    /// Of kind `Lost` without a reason: it is over, though nobody took it.
    pub(crate) fn released(key: &str) -> Self {
        let text = format!("{}: the lease was released; nothing is held", shown(key));
        Self::new(ErrorKind::Lost, &text).about(key)
    }

    /// Not acquired in time, and why.
    pub(crate) fn timeout(key: &str, waited: Duration, why: &str) -> Self {
        let text = format!("{}: not acquired within {}: {why}", shown(key), seconds(waited));
        let mut error = Self::new(ErrorKind::Timeout, &text).about(key);
        error.0.waited = Some(waited);
        error
    }

    /// `what` failed for want of a quorum: each node with its own cause.
    /// Whoever reads it must see at once whether one server is down or all are misspelt.
    pub(crate) fn unavailable(key: &str, what: &str, nodes: Vec<NodeReport>) -> Self {
        use fmt::Write;
        let faults = nodes.iter().filter(|node| node.state == "fault").count();
        let mut text = format!("{}: {what}: {faults} of {} nodes failed", shown(key), nodes.len());
        for node in &nodes {
            // Writing to a String cannot fail.
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

    /// The key that the error is about.
    pub(crate) fn about(mut self, key: &str) -> Self {
        self.0.resource = Some(key.to_owned());
        self
    }

    /// What is left of the holder's lease.
    pub(crate) fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.0.remaining = remaining;
        self
    }

    /// How long the acquire had waited.
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
    ///
    /// With the prefix; of several, all, separated by commas. `None` where no key was known yet.
    pub fn resource(&self) -> Option<&str> {
        self.0.resource.as_deref()
    }

    /// How long the acquire had waited.
    ///
    /// Of acquires only; queueing in the process counts.
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// What is left of the holder's lease, where a node told it.
    ///
    /// As of its last answer: a holder that renews has more.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.remaining
    }

    /// Why the lease was lost.
    ///
    /// `None` for other kinds, and for a lease that its owner released.
    pub fn loss_reason(&self) -> Option<LossReason> {
        self.0.reason
    }

    /// Why the lease was lost, as the word every language uses.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason.map(LossReason::as_str)
    }

    /// What each node had to say, where the nodes are the cause.
    ///
    /// In the order of the client's list; empty for other kinds than `Unavailable`.
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
///
/// One unit in every language, so that a text can be searched for.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
