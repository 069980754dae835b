//! A read/write lock: the name of two locks that exclude each other.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use crate::engine::Engine;
use crate::lock::{Lock, Names};
use crate::options::lock::Options;
use crate::primitive::{Kind, Side};
use crate::text::shown;

/// A read/write lock: any number of readers hold it at a time, or one writer.
///
/// Each side is a [`Lock`] with all of its methods and options.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
/// # let client = redlock::Redlock::builder(["memory://"]).build()?;
/// let config = client.rwlock("config");
/// let (_one, _two) = (config.read().acquire().await?, config.read().acquire().await?);
/// assert!(config.write().try_acquire().await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing is locked until one of its sides is acquired"]
pub struct RwLock {
    engine: Arc<Engine>,
    names: Names,
}

// As a lock: a panic leaves it consistent.
impl UnwindSafe for RwLock {}
impl RefUnwindSafe for RwLock {}

impl RwLock {
    /// Makes a read/write lock. Its rules are checked at the first use of a side.
    pub(crate) fn new(engine: &Arc<Engine>, names: Names) -> Self {
        Self { engine: Arc::clone(engine), names }
    }

    /// The lock of a reader, which other readers share.
    ///
    /// It has no fencing token and no [`min_hold`](Lock::min_hold). A reader that dies delays a writer by its TTL and
    /// at most one second more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.rwlock("config").read().acquire().await?;
    /// assert!(client.rwlock("config").read().inspect().await?.mode == Some("read"));
    /// # lease.release().await
    /// # }
    /// ```
    pub fn read(&self) -> Lock {
        self.side(Side::Read)
    }

    /// The lock of a writer, which excludes everyone. [`Redlock::lock`](crate::Redlock::lock) on the same name does
    /// too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.rwlock("config").write().fencing(true).acquire().await?;
    /// assert!(lease.fencing_token().is_ok());
    /// assert!(client.rwlock("config").read().try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn write(&self) -> Lock {
        self.side(Side::Write)
    }

    fn side(&self, side: Side) -> Lock {
        let options = Options { kind: Kind::ReadWrite(side), ..Options::default() };
        Lock::new(&self.engine, self.names.clone(), options)
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.read().key();
        f.debug_struct("RwLock").field("key", &shown(&key)).finish_non_exhaustive()
    }
}
