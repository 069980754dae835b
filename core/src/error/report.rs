//! The result of one node, as part of an error.

use super::cause::Cause;
use super::kind::NodeState;

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
