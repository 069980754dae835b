//! One error type, one code per kind, the same codes in every language.
//!
//! An error says what to do in its kind and what happened in its text. The text names the key, is one line, and
//! repeats no password: nodes' own words come redacted.

mod cause;
mod kind;
mod report;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::text::{escaped, shown};
use cause::Source;

pub(crate) use cause::Cause;
pub use kind::{ErrorKind, LossReason, NodeState};
pub use report::NodeReport;

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
    /// What stands behind it.
    source: Option<Arc<Source>>,
    late: bool,
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
            source: None,
            late: false,
        }))
    }

    /// A value broke a rule, which is the message.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::permanent(ErrorKind::Invalid, &message.into())
    }

    /// No retry can help, as the kind says.
    pub(crate) fn permanent(kind: ErrorKind, message: &str) -> Self {
        Self::new(kind, message)
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

    /// The owner has released the lease, or has detached from it. Nothing more can be done with it.
    pub(crate) fn released(key: &str) -> Self {
        let text = format!("{}: the lease was released; nothing is held", shown(key));
        Self::new(ErrorKind::Released, &text).about(key)
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
        let faults = nodes.iter().filter(|node| node.state == NodeState::Fault).count();
        let who = match nodes.len() {
            1 => "the node failed".to_owned(),
            count => format!("{faults} of {count} nodes failed"),
        };
        let mut text = format!("{}: {what}: {who}", shown(key));
        for node in &nodes {
            // Writing to a String cannot fail.
            let _ = match &node.error {
                Some(error) => write!(text, "; {}: {error}", node.url),
                None => write!(text, "; {}: {}", node.url, node.state),
            };
        }
        let mut error = Self::new(ErrorKind::Unavailable, &text).about(key);
        // One stands for all: the first that failed, and of those the first of which the system said why.
        let failed = || nodes.iter().filter(|node| node.error.is_some());
        let first = failed().find(|node| node.cause.is_some()).or_else(|| failed().next());
        error.0.source = first.map(|node| {
            let why = node.error.as_deref().unwrap_or_default();
            Arc::new(Source::new(format!("{}: {why}", node.url), node.cause))
        });
        error.0.nodes = nodes;
        error
    }

    /// Nothing can be asked: the system has no thread, or no file descriptor, for the background thread.
    pub(crate) fn no_thread(key: &str, error: &std::io::Error) -> Self {
        let why = format!("the background thread cannot be started: {error}");
        let text = format!("{}: {why}", shown(key));
        let mut failure = Self::new(ErrorKind::Unavailable, &text).about(key);
        failure.0.source = Some(Arc::new(Source::new(why, Cause::of(error))));
        failure
    }

    /// A quorum granted, and the answers were read too late.
    pub(crate) fn with_late(mut self) -> Self {
        self.0.late = true;
        self
    }

    pub(crate) fn was_late(&self) -> bool {
        self.0.late
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

    /// The kind's code, equal in every language: `timeout`, `lost`, `released`, `unavailable`, `invalid`, `unsupported` or
    /// `closed`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
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
    /// `None` for other kinds.
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

impl std::error::Error for Error {
    /// Of `Unavailable`: the first node that failed; behind it an [`io::Error`](std::io::Error), if the system said why.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

// Nothing in it changes any more: no panic can leave it half changed.
impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}

/// `1.234 s`, as every message writes a time.
///
/// One unit in every language, so that a text can be searched for.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
