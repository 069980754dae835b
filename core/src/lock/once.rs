//! A body that runs once: a lock whose keys stay after a success, as the memory of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{ended, outcome, while_held};
use super::{Lock, Names};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lease::{Lease, LeaseHandle};
use crate::options::lock::{Options, Purpose};
use crate::text::shown;

/// A run that happens once in a given time, over all clients.
///
/// It has no state, so it can be shared by threads and tasks and used many times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// use std::time::Duration;
/// let once = client.once("payment:42", Duration::from_secs(86_400)).ttl(Duration::from_secs(30));
/// let failed = once.run(async |_| Err::<(), _>(redlock::Redlock::builder([""]).build().unwrap_err())).await;
/// assert_eq!(failed.unwrap_err().code(), "invalid"); // A body that fails is not remembered.
/// assert_eq!(once.run(async |lease| Ok::<_, redlock::Error>(lease.is_held())).await?, Some(true));
/// assert_eq!(once.run(async |lease| Ok::<_, redlock::Error>(lease.is_held())).await?, None);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing runs until run"]
pub struct Once {
    lock: Lock,
}

impl Once {
    /// Makes a run. Its rules are checked at the first use.
    pub(crate) fn new(engine: &Arc<Engine>, names: Names, remember: Duration) -> Self {
        let purpose = Purpose::Once;
        let options = Options { purpose, min_hold: remember, ..Options::default() };
        Self { lock: Lock::new(engine, names, options) }
    }

    /// Runs `body` under the lock, unless it ran before. Returns its value, or `None` if a run is remembered.
    ///
    /// The lease is renewed while the body runs. If it is lost, the body is dropped at its next `await`. A body that
    /// returns `Err`, panics or is dropped leaves no memory, and another run may begin at once. After a process died,
    /// it may begin when the TTL has ended. If too few nodes confirm the memory, this is only logged. It then lasts at
    /// least for the rest of the TTL.
    ///
    /// # Errors
    ///
    /// - The error of the body.
    /// - `Timeout` if another caller runs the body now, and did not end within [`wait`](Self::wait).
    /// - `Lost` if the lease was lost before the body ended. Another run may have begun, also if the body succeeded.
    /// - As [`Lock::acquire`], before the body is called.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let once = client.once("payment:42", Duration::from_secs(86_400));
    /// let status = match once.run(async |_| Ok::<_, redlock::Error>("charged")).await {
    ///     Ok(_) => 200,                                  // Charged now, or before.
    ///     Err(error) if error.code() == "timeout" => 409, // Another process charges it now. Deliver it again.
    ///     Err(_) => 500,
    /// };
    /// assert_eq!(status, 200);
    /// # Ok(()) }
    /// ```
    pub fn run<T, E, F>(&self, body: F) -> impl Future<Output = Result<Option<T>, E>> + use<T, E, F>
    where
        F: AsyncFnOnce(LeaseHandle) -> Result<T, E>,
        E: From<Error>,
    {
        let acquired = self.lock.acquire();
        async move {
            let Some(lease) = unless_remembered(acquired.await)? else { return Ok(None) };
            let value = while_held(&lease, body(lease.handle())).await?;
            let end = ended(lease, value.is_ok()).await;
            let value = value?;
            end?;
            Ok(Some(value))
        }
    }

    /// [`Once::run`] for programs without a runtime. A loss does not end the body: it can check the lease.
    ///
    /// ```
    /// # fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// # use std::time::Duration;
    /// let nightly = client.once("report:2026-11-29", Duration::from_secs(86_400));
    /// assert_eq!(nightly.run_blocking(|_| Ok::<_, redlock::Error>(7))?, Some(7));
    /// assert_eq!(nightly.run_blocking(|_| Ok::<_, redlock::Error>(7))?, None);
    /// # Ok(()) }
    /// ```
    pub fn run_blocking<T, E, F>(&self, body: F) -> Result<Option<T>, E>
    where
        F: FnOnce(LeaseHandle) -> Result<T, E>,
        E: From<Error>,
    {
        let Some(lease) = unless_remembered(self.lock.acquire_blocking())? else { return Ok(None) };
        let value = body(lease.handle());
        let end = outcome(|| ended(lease, value.is_ok()));
        let value = value?;
        end?;
        Ok(Some(value))
    }

    fn changed(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        Self { lock: change(self.lock) }
    }

    /// How long a run waits while another caller runs the body, and for failed nodes. Zero, the default, tries once.
    ///
    /// If the other run succeeds, the wait ends, and this run is skipped.
    pub fn wait(self, wait: impl Into<Option<Duration>>) -> Self {
        self.changed(|lock| lock.wait(wait))
    }

    /// [`Lock::ttl`]: how soon another run may begin after a process died. Default 10 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.changed(|lock| lock.ttl(ttl))
    }

    /// [`Lock::max_hold`]: the maximum time that a run takes. Default none.
    pub fn max_hold(self, max_hold: impl Into<Option<Duration>>) -> Self {
        self.changed(|lock| lock.max_hold(max_hold))
    }

    /// [`Lock::renew`]. Default on.
    pub fn renew(self, renew: bool) -> Self {
        self.changed(|lock| lock.renew(renew))
    }

    /// [`Lock::label`] of the run, also while it is remembered.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.changed(|lock| lock.label(label))
    }

    /// [`Lock::node_timeout`].
    pub fn node_timeout(self, timeout: Duration) -> Self {
        self.changed(|lock| lock.node_timeout(timeout))
    }
}

/// Turns the refusal of a run that is remembered into `None`.
fn unless_remembered(acquired: Result<Lease>) -> Result<Option<Lease>> {
    match acquired {
        Err(error) if error.is_remembered() => Ok(None),
        acquired => acquired.map(Some),
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("key", &shown(&self.lock.key())).finish_non_exhaustive()
    }
}
