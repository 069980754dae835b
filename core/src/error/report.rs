//! What one node had to say, as an error lists it.

use super::cause::Cause;
use super::kind::NodeState;

/// What one node had to say.
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
    /// The node's URL without its password.
    pub url: String,
    /// What it said, in one word.
    pub state: NodeState,
    /// The fault's own text.
    ///
    /// `None` where the state says all; a server's words are cut at 200 characters and without the password.
    pub error: Option<String>,
    /// What the system said.
    pub(crate) cause: Option<Cause>,
}
