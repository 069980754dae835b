//! The setters for the options of a lock.

use std::time::Duration;

use super::Lock;

impl Lock {
    /// How long the lease lives without renewal. At least 100 ms, default 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.change().ttl = ttl;
        self
    }

    /// How long an acquire waits, both for another owner and for failed nodes. Zero tries once.
    ///
    /// Default `None`, which waits for another owner forever, and for failed nodes for
    /// [`unavailable_after`](crate::Builder::unavailable_after).
    pub fn wait(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.change().wait = wait.into();
        self
    }

    /// Whether to renew the lease at a third of its TTL until it is released. Default on.
    pub fn renew(mut self, renew: bool) -> Self {
        self.change().renew = renew;
        self
    }

    /// The maximum total hold time. The lease is then lost with the reason `max_hold`. Default `None`.
    pub fn max_hold(mut self, max_hold: impl Into<Option<Duration>>) -> Self {
        self.change().max_hold = max_hold.into();
        self
    }

    /// Minimum time to keep the keys after the acquire, even if the lease is released earlier. Must not exceed `ttl`.
    /// Default zero.
    ///
    /// Lets several hosts with skewed clocks run a scheduled job only once: a late host finds the lock held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let tick = client.lock("report").ttl(Duration::from_secs(60)).min_hold(Duration::from_secs(50));
    /// tick.acquire().await?.release().await?;
    /// assert!(tick.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.change().min_hold = min_hold;
        self
    }

    /// Whether to issue a fencing token, which is larger than every earlier one of this lock. Default off.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.change().fencing = fencing;
        self
    }

    /// How long to wait for the reply of one node. Defaults to the client's, otherwise min(1 s, ttl / 5).
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.change().node_timeout = Some(timeout);
        self
    }
}
