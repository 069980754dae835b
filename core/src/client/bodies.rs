//! The descriptions of bodies that run under a lock: one that runs once, and one that leads.

use std::time::Duration;

use crate::client::Redlock;
use crate::lock::{Leader, Names, Once};

impl Redlock {
    /// Describes a run that happens once in the time `remember`, counted from its start. Sends nothing.
    ///
    /// [`Once::run`] runs a body under the lock of this name, and keeps its key after a success. A body that fails and
    /// a process that dies leave no memory, so the next call runs it again.
    ///
    /// Use it for jobs and callbacks that may arrive several times. Do not use the same name for a lock.
    ///
    /// # Errors
    ///
    /// The first use returns `Invalid` if `remember` is zero, or for several names.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let day = Duration::from_secs(86_400);
    /// let charge = || client.once("payment:42", day).run(async |_| Ok::<_, redlock::Error>("charged"));
    /// assert_eq!(charge().await?, Some("charged"));
    /// assert_eq!(charge().await?, None); // ran before
    /// # Ok(()) }
    /// ```
    pub fn once(&self, name: impl Into<Names>, remember: Duration) -> Once {
        Once::new(&self.0, name.into(), remember)
    }

    /// Describes a candidate of an election, of which at most one leads at a time. Sends nothing.
    ///
    /// [`Leader::run`] campaigns, runs a body while it leads, and campaigns again after a loss. A leader holds the lock
    /// of this name, so a [`lock`](Redlock::lock) of the name excludes it. Its label is the client's, or else the host
    /// and the process.
    ///
    /// # Errors
    ///
    /// The first use returns `Invalid` for several names.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let leader = client.leader("scheduler");
    /// let led = leader.run(async |lease| Ok::<_, redlock::Error>(lease.is_held()));
    /// assert!(led.await?);
    /// # Ok(()) }
    /// ```
    pub fn leader(&self, name: impl Into<Names>) -> Leader {
        Leader::new(&self.0, name.into())
    }
}
