//! Delays the end of the process briefly for deletes that are under way.
//!
//! Without the delay, the key of a lease that is dropped at the end of the program would stay until its TTL ends. This
//! module only counts the deletes. The background thread sends and retries them until the process ends.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use crate::runtime::{PerProcess, fork_generation, lock};

/// The number of deletes of this process that were passed to a connection and have no reply yet.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// The process that the number belongs to. A forked child does not wait for deletes of its parent.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A connection whose commands may be held back until the event loop that requested them ends its turn.
pub(crate) trait Flush: Send + Sync {
    /// Sends the commands. Called at the end of the process, so it must not wait.
    fn flush(&self);
}

/// The connections of this process.
static CONNECTIONS: PerProcess<Mutex<Vec<Weak<dyn Flush>>>> = PerProcess::new();

/// Registers a connection that must flush its commands at the end of the process, because its event loop may never end
/// that turn.
pub(crate) fn flush_at_exit(connection: Weak<dyn Flush>) {
    let connections = CONNECTIONS.get_or_make(Mutex::default);
    let mut connections = lock(&connections);
    connections.retain(|known| known.strong_count() > 0);
    connections.push(connection);
}

/// Flushes all connections of this process.
fn flush_all() {
    let Some(connections) = CONNECTIONS.get() else { return };
    // Not waited for. Another thread only locks it while it makes a client.
    let Ok(connections) = connections.try_lock() else { return };
    connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.flush());
}

/// A delete that was passed to a connection and has no reply yet.
///
/// It stores the process that began it, so that a forked child does not count the deletes of its parent.
pub(crate) struct UnderWay(u32);

impl UnderWay {
    /// Counts a delete that is passed to a connection.
    pub(crate) fn begin() -> Self {
        static HOOKED: AtomicBool = AtomicBool::new(false);
        at_exit(&HOOKED, wait_for_deletes);
        let generation = fork_generation();
        // The first delete after a fork: the number so far was the parent's.
        if GENERATION.swap(generation, Ordering::Relaxed) != generation {
            UNDER_WAY.store(0, Ordering::Relaxed);
        }
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(generation)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0 == fork_generation() {
            UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The exit hook of deletes.
extern "C" fn wait_for_deletes() {
    let is_waiting = || {
        UNDER_WAY.load(Ordering::Relaxed) > 0
            && GENERATION.load(Ordering::Relaxed) == fork_generation()
    };
    if UNDER_WAY.load(Ordering::Relaxed) > 0 {
        flush_all();
    }
    delay_exit_while(is_waiting);
}

/// Registers a hook for the end of the process, unless it is `hooked`. `abort` and `_exit` do not call it.
///
/// It must not panic or wait for a lock that a terminated thread may hold.
pub(crate) fn at_exit(hooked: &AtomicBool, hook: extern "C" fn()) {
    if !hooked.load(Ordering::Relaxed) && !hooked.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        // SAFETY: the hooks read atomics, wake the background thread and sleep.
        unsafe {
            libc::atexit(hook);
        }
        #[cfg(not(unix))]
        let _ = hook;
    }
}

/// Delays the end of the process briefly, while this is true.
pub(crate) fn delay_exit_while(is_waiting: impl Fn() -> bool) {
    const LONGEST: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    while is_waiting() && begun.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(1));
    }
}
