//! The calls of a client for programs without a runtime.

use std::time::Duration;

use super::Redlock;
use crate::error::Result;
use crate::lock::{Names, Ping, outcome};

impl Redlock {
    /// [`Redlock::force_release`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire_blocking()?;
    /// assert!(client.force_release_blocking("job")?);
    /// assert!(client.lock("job").try_acquire_blocking()?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn force_release_blocking(&self, names: impl Into<Names>) -> Result<bool> {
        self.lock(names).force_release_blocking()
    }

    /// [`Redlock::ping`] for programs without a runtime, with the same errors. Blocks this thread for up to `timeout`.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// assert!(client.ping_blocking(std::time::Duration::from_secs(1))?.ready);
    /// # Ok(()) }
    /// ```
    pub fn ping_blocking(&self, timeout: Duration) -> Result<Ping> {
        outcome(|| self.ping(timeout))
    }

    /// [`Redlock::release_all`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire_blocking()?;
    /// assert_eq!(client.release_all_blocking()?, 1);
    /// assert_eq!(lease.ensure_held().unwrap_err().reason(), Some("revoked"));
    /// # Ok(()) }
    /// ```
    pub fn release_all_blocking(&self) -> Result<usize> {
        outcome(|| self.release_all())
    }

    /// [`Redlock::shutdown`] for programs without a runtime, with the same errors.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// client.lock("job").acquire_blocking()?.release_blocking()?;
    /// assert_eq!(client.shutdown_blocking(std::time::Duration::from_secs(10))?, 0);
    /// # Ok(()) }
    /// ```
    pub fn shutdown_blocking(&self, timeout: Duration) -> Result<usize> {
        outcome(|| self.shutdown(timeout))
    }
}
