//! The error type. Every kind has a code that is the same in every language.
//!
//! The kind tells programs how to react, and the text tells what happened. The text names the key, is a single line,
//! and contains no password: the texts of nodes are redacted.

mod kind;

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::text::{on_one_line, shown};

pub use kind::{ErrorKind, LossReason, NodeState};

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
#[derive(Clone)]
pub struct Error(Box<Repr>);

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone)]
struct Repr {
    kind: ErrorKind,
    /// Escaped, so that it is a single line.
    message: String,
    /// The key as stored in Redis, unlike the escaped one in messages.
    resource: Option<String>,
    waited: Option<Duration>,
    /// The remaining time of the current holder's lease, if known.
    remaining: Option<Duration>,
    /// The label of the current holder, if known.
    holder: Option<String>,
    reason: Option<LossReason>,
    /// The result of each node, in the order of the client's list.
    nodes: Vec<NodeReport>,
    source: Option<Arc<Source>>,
    late: bool,
    /// Whether the keys are kept after a run that happens once.
    remembered: bool,
    /// What to do, if the acquire gave up. The text shows it last.
    advice: Option<String>,
}

impl Error {
    /// Boxed, so that results are as small as a pointer. Errors are rare.
    pub(crate) fn new(kind: ErrorKind, message: &str) -> Self {
        Self(Box::new(Repr {
            kind,
            // In this one place, because names and keys come from callers.
            message: on_one_line(message),
            resource: None,
            waited: None,
            remaining: None,
            holder: None,
            reason: None,
            nodes: Vec::new(),
            source: None,
            late: false,
            remembered: false,
            advice: None,
        }))
    }

    /// A value broke a rule, which `message` states.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, &message.into())
    }

    pub(crate) fn closed(key: &str) -> Self {
        Self::new(ErrorKind::Closed, &format!("{}: the client is closed", shown(key))).about(key)
    }

    /// The client is closed, and the call was not about a lock.
    pub(crate) fn client_closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// The lease was lost for this reason, and how long ago.
    ///
    /// The time matters: code that is notified late has run without its lock for that long.
    pub(crate) fn lost(key: &str, reason: LossReason, ago: Duration) -> Self {
        let ago = measurable(ago).map_or_else(String::new, |ago| format!(" {ago} ago"));
        Self::not_held(key, &format!("the lease was lost{ago}"), reason, &reason.explanation())
    }

    /// No lease has the token of an attach. In this process, the lease was never held.
    pub(crate) fn not_attached(key: &str, reason: LossReason) -> Self {
        let why = match reason {
            LossReason::Missing => {
                "the key does not exist. The lease was released or has expired, or the token or name is wrong".into()
            }
            other => other.explanation(),
        };
        Self::not_held(key, "not attached, because no lease with this token is held", reason, &why)
    }

    fn not_held(key: &str, what: &str, reason: LossReason, why: &str) -> Self {
        let text = format!("{}: {what}: {why}", shown(key));
        let mut error = Self::new(ErrorKind::Lost, &text).about(key);
        error.0.reason = Some(reason);
        error
    }

    /// The owner released the lease or detached it, so no further operation is possible.
    pub(crate) fn released(key: &str) -> Self {
        let text = format!("{}: the lease was released and is no longer held", shown(key));
        Self::new(ErrorKind::Released, &text).about(key)
    }

    /// Not acquired in time, and the reason.
    pub(crate) fn timeout(key: &str, waited: Duration, why: &str) -> Self {
        let text = format!("{}: not acquired within {}: {why}", shown(key), seconds(waited));
        let mut error = Self::new(ErrorKind::Timeout, &text).about(key);
        error.0.waited = Some(waited);
        error
    }

    /// `what` failed because no quorum replied. The text lists each node with its error.
    ///
    /// It must show at once whether one server is down or all URLs are misspelled.
    pub(crate) fn unavailable(key: &str, what: &str, nodes: Vec<NodeReport>) -> Self {
        Self::no_quorum(format!("{}: {what}", shown(key)), nodes).about(key)
    }

    /// Like [`Error::unavailable`], but about no single key.
    pub(crate) fn no_quorum(mut text: String, nodes: Vec<NodeReport>) -> Self {
        use fmt::Write;
        let faults = nodes.iter().filter(|node| node.state == NodeState::Fault).count();
        let who = match (nodes.len(), faults) {
            (1, 0) => "The node has not failed".to_owned(),
            (1, _) => "The node failed".to_owned(),
            (count, _) => format!("{faults} of {count} nodes failed"),
        };
        // Writing to a String cannot fail.
        let _ = write!(text, ". {who}");
        for node in &nodes {
            let _ = match &node.error {
                Some(error) => write!(text, "; {}: {error}", node.url),
                None => write!(text, "; {}: {}", node.url, node.state),
            };
        }
        let mut error = Self::new(ErrorKind::Unavailable, &text);
        // The source is one failed node, preferably the first with an error of the operating system.
        let failed = || nodes.iter().filter(|node| node.error.is_some());
        let first = failed().find(|node| node.cause.is_some()).or_else(|| failed().next());
        error.0.source = first.map(|node| {
            let why = node.error.as_deref().unwrap_or_default();
            Arc::new(Source::new(format!("{}: {why}", node.url), node.cause))
        });
        error.0.nodes = nodes;
        error
    }

    /// No command can be sent: the system has no thread or no file descriptor for the background thread.
    pub(crate) fn no_thread(key: &str, error: &std::io::Error) -> Self {
        let why = format!("cannot start the background thread: {error}");
        let text = format!("{}: {why}", shown(key));
        let mut failure = Self::new(ErrorKind::Unavailable, &text).about(key);
        failure.0.source = Some(Arc::new(Source::new(why, Cause::from_io(error))));
        failure
    }

    /// Marks that a quorum granted the lock, but the replies were read too late.
    pub(crate) fn with_late(mut self) -> Self {
        self.0.late = true;
        self
    }

    /// Marks that the run happened, so that an acquire for it ends.
    pub(crate) fn with_remembered(mut self, remembered: bool) -> Self {
        self.0.remembered = remembered;
        self
    }

    pub(crate) fn is_remembered(&self) -> bool {
        self.0.remembered
    }

    /// Adds advice to the error of an acquire that gave up but could have continued.
    ///
    /// Such an acquire is not retried, even if its last grant was read too late.
    pub(crate) fn given_up(mut self, advice: String) -> Self {
        self.0.late = false;
        self.0.advice = Some(advice);
        self
    }

    /// What to do, if the acquire gave up.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }

    pub(crate) fn was_late(&self) -> bool {
        self.0.late
    }

    pub(crate) fn about(mut self, key: &str) -> Self {
        self.0.resource = Some(key.to_owned());
        self
    }

    pub(crate) fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.0.remaining = remaining;
        self
    }

    pub(crate) fn with_holder(mut self, holder: Option<&str>) -> Self {
        self.0.holder = holder.map(str::to_owned);
        self
    }

    pub(crate) fn with_waited(mut self, waited: Duration) -> Self {
        self.0.waited = Some(waited);
        self
    }

    /// The kind of the error, for branching.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The code of the kind, which is the same in every language.
    ///
    /// It is `timeout`, `lost`, `released`, `unavailable`, `invalid`, `unsupported` or `closed`.
    pub fn code(&self) -> &'static str {
        self.0.kind.as_str()
    }

    /// The Redis key that the error is about, with the client's prefix. Several keys are separated by commas.
    ///
    /// `None` if no key was known yet.
    pub fn resource(&self) -> Option<&str> {
        self.0.resource.as_deref()
    }

    /// How long the acquire waited, including the queue within the process. Only set for acquires.
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// The remaining time of the holder's lease, if a node reported it.
    ///
    /// Calculated from the last reply. A holder that renews has more.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.remaining
    }

    /// The [label](crate::Lock::label) of the holder, if it has one and a quorum of nodes refused the acquire.
    ///
    /// Any client can write any label, so it informs people only.
    pub fn holder(&self) -> Option<&str> {
        self.0.holder.as_deref()
    }

    /// Why the lease was lost. `None` for other kinds.
    pub fn loss_reason(&self) -> Option<LossReason> {
        self.0.reason
    }

    /// Why the lease was lost, as the word that every language uses.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason.map(LossReason::as_str)
    }

    /// The result of each node, in the order of the client's list. Empty for other kinds than `Unavailable`.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        self.advice().map_or(Ok(()), |advice| write!(f, ". {advice}"))
    }
}

/// The code and the text. `unwrap` and a `main` that returns an error print it. The text contains that of the source.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.code())
    }
}

impl std::error::Error for Error {
    /// For `Unavailable`, the first node that failed. Its source is an [`io::Error`](std::io::Error), if the operating
    /// system reported one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

// An error is immutable, so no panic can leave it in an inconsistent state.
impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}

/// Formats a duration as `1.234 s`.
///
/// All messages use this unit, so that logs can be searched.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Formats a duration, unless it is so short that it would be `0.000 s`.
pub(crate) fn measurable(time: Duration) -> Option<String> {
    (time >= Duration::from_millis(1)).then(|| seconds(time))
}

/// The result of one node.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let client = redlock::Redlock::builder(["redis://127.0.0.1:1"]).build()?;
/// let error = client.lock("job").try_acquire().await.unwrap_err();
/// let node = &error.nodes()[0];
/// assert_eq!((node.url.as_str(), node.state), ("redis://127.0.0.1:1", redlock::NodeState::Fault));
/// assert!(node.error.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The URL of the node, without its password.
    pub url: String,
    /// The result as one word.
    pub state: NodeState,
    /// The error text of the node.
    ///
    /// `None` if `state` is sufficient. Text of a server is cut at 200 characters, and passwords are removed.
    pub error: Option<String>,
    /// The error of the operating system.
    pub(crate) cause: Option<Cause>,
}

/// The error of the operating system, as a number or a kind. Its text is not kept, because it could contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Code(i32),
    Kind(io::ErrorKind),
}

impl Cause {
    /// Converts an error without its text. `None` if it has only a text.
    pub(crate) fn from_io(error: &io::Error) -> Option<Self> {
        // The kind of a failed name lookup says nothing, and has no name yet.
        let says = error.kind() != io::ErrorKind::Other
            && error.kind().to_string() != "uncategorized error";
        let kind = says.then(|| Self::Kind(error.kind()));
        error.raw_os_error().map(Self::Code).or(kind)
    }

    fn error(self) -> io::Error {
        match self {
            Self::Code(code) => io::Error::from_raw_os_error(code),
            Self::Kind(kind) => kind.into(),
        }
    }
}

/// What `std::error::Error::source` returns for an error of this library.
#[derive(Debug)]
struct Source {
    text: String,
    cause: Option<io::Error>,
}

impl Source {
    /// `text` must not contain a secret.
    fn new(text: String, cause: Option<Cause>) -> Self {
        Self { text, cause: cause.map(Cause::error) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Source {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
