//! The environment of a connection: timers, the machine's clock, background tasks, tokens, and the order of concurrent
//! events.
//!
//! In a release build these are tokio's timers, the clock of the operating system and the background thread. A unit
//! test may replace them for its thread ([`simulated`]), as the simulation does. The tasks of the connections use
//! nothing else, so the simulation can run them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::runtime::machine::{self, Instant};

/// Returns a limit of what is kept in memory. The simulation lowers it.
pub(crate) fn limit(limit: usize) -> usize {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulated::current() {
        return simulated.limit(limit);
    }
    limit
}

/// A future that completes after some time. No caller is in the path of a lock's command, so it may be boxed.
pub(crate) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time of the machine. A client may use another clock, which a program's test can stop.
pub(crate) fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulated::current() {
        return simulated.now();
    }
    machine::now()
}

/// Returns a new random identifier, from the randomness of the operating system.
pub(crate) fn new_id() -> Uuid {
    #[cfg(feature = "simulation")]
    if simulated::current().is_some() {
        return uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid();
    }
    Uuid::new_v4()
}

/// Returns a timer of the current runtime.
pub(crate) fn sleep(time: Duration) -> Sleep {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulated::current() {
        return simulated.sleep(time);
    }
    Box::pin(tokio::time::sleep(time))
}

/// The time limit of a future has passed.
#[derive(Debug)]
pub(crate) struct Elapsed;

/// Waits for a future, at most for `limit`.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    #[cfg(feature = "simulation")]
    if simulated::current().is_some() {
        let (future, sleep) = (std::pin::pin!(future), sleep(limit));
        return match futures_util::future::select(future, sleep).await {
            futures_util::future::Either::Left((output, _)) => Ok(output),
            futures_util::future::Either::Right(_) => Err(Elapsed),
        };
    }
    tokio::time::timeout(limit, future).await.map_err(|_| Elapsed)
}

/// A timer that completes regularly, and immediately at first. It skips ticks while its thread is busy.
pub(crate) enum Interval {
    Tokio(tokio::time::Interval),
    #[cfg(feature = "simulation")]
    Simulated(Duration, Sleep),
}

impl Interval {
    pub(crate) fn new(period: Duration) -> Self {
        #[cfg(feature = "simulation")]
        if simulated::current().is_some() {
            return Self::Simulated(period, sleep(Duration::ZERO));
        }
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Tokio(interval)
    }

    /// Begins the current period again.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Tokio(interval) => interval.reset(),
            #[cfg(feature = "simulation")]
            Self::Simulated(period, next) => *next = sleep(*period),
        }
    }

    pub(crate) async fn tick(&mut self) {
        match self {
            Self::Tokio(interval) => drop(interval.tick().await),
            #[cfg(feature = "simulation")]
            Self::Simulated(_, next) => {
                next.await;
                self.reset();
            }
        }
    }
}

/// [`tokio::select!`], whose order the simulation can seed.
///
/// In random order: a server that sends without a pause must not delay commands or the client's end.
#[cfg(not(feature = "simulation"))]
macro_rules! race {
    ($($branches:tt)*) => { tokio::select! { $($branches)* } };
}

/// [`tokio::select!`], whose first branch this thread's generator chooses. The simulation can seed that one, but not
/// tokio's, so this uses the form to which tokio's macro expands. The remainder of the number is the branch.
#[cfg(feature = "simulation")]
macro_rules! race {
    ($($branches:tt)*) => {
        tokio::select!(@{ start={ fastrand::u32(..720_720) }; () } $($branches)*)
    };
}

pub(crate) use race;

/// The replacement of one thread's environment.
#[cfg(feature = "simulation")]
pub(crate) mod simulated {
    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use futures_util::future::{AbortHandle, BoxFuture};

    use super::Sleep;
    use crate::runtime::machine::Instant;

    /// What the connections of a client use.
    pub(crate) trait Environment {
        fn now(&self) -> Instant;
        fn sleep(&self, time: Duration) -> Sleep;
        /// Starts a task. The player of the simulation polls it.
        fn spawn(&self, work: BoxFuture<'static, ()>);
        /// Returns the limit of what is kept in memory, or a lower one.
        fn limit(&self, limit: usize) -> usize;
        /// Opens a connection to a server.
        fn open(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
    }

    /// The client's end of a connection. It never blocks.
    pub(crate) trait Stream: Send + Sync {
        /// Returns `WouldBlock` before more bytes arrive, and 0 at the end.
        fn read(&self, into: &mut [u8]) -> io::Result<usize>;
        /// Returns `WouldBlock` while the buffer is full.
        fn write(&self, bytes: &[u8]) -> io::Result<usize>;
        fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
        fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
        /// Makes the drop reset the connection.
        fn reset_on_drop(&self);
    }

    thread_local! {
        static ENVIRONMENT: RefCell<Option<Arc<dyn Environment>>> = const { RefCell::new(None) };
    }

    pub(crate) fn current() -> Option<Arc<dyn Environment>> {
        ENVIRONMENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Replaces the environment of this thread, and returns the former one.
    pub(crate) fn enter(environment: Option<Arc<dyn Environment>>) -> Option<Arc<dyn Environment>> {
        ENVIRONMENT.with(|current| current.replace(environment))
    }

    /// Starts a task, if this thread's environment is replaced. Otherwise returns the task.
    pub(crate) fn spawn<F>(task: F) -> Result<AbortHandle, F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(environment) = current() else { return Err(task) };
        let (task, handle) = futures_util::future::abortable(task);
        environment.spawn(Box::pin(async move {
            let _ = task.await;
        }));
        Ok(handle)
    }
}
