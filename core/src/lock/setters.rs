//! A lock's options, as Rust chooses them.

use std::time::Duration;

use super::Lock;

impl Lock {
    /// How long the lease lives without renewal; at least 100 ms, default 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.change().ttl = ttl;
        self
    }

    /// How long an acquire may wait for somebody else; zero: one round; `None`, the default: for ever.
    pub fn wait(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.change().wait = wait.into();
        self
    }

    /// Whether to extend at a third of the ttl until released; default on.
    pub fn renew(mut self, renew: bool) -> Self {
        self.change().renew = renew;
        self
    }

    /// Upper bound on the whole hold, at which the lease is lost with reason `max_hold`; default `None`.
    pub fn max_hold(mut self, max_hold: impl Into<Option<Duration>>) -> Self {
        self.change().max_hold = max_hold.into();
        self
    }

    /// How long the keys stay after the acquire, even if the lease is released before; at most the ttl, default zero.
    ///
    /// For jobs that several hosts start at the same time by clocks of their own: whoever comes late finds it done.
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

    /// Whether to ask for a fencing token: larger than every earlier one of this lock; default off.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.change().fencing = fencing;
        self
    }

    /// How long to wait for one node's answer; default the client's, else min(1 s, ttl / 5).
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.change().node_timeout = Some(timeout);
        self
    }
}
