//! The end of the process waits a moment for deletes that are under way: a lease that is dropped as the program ends
//! would else keep its key for a whole ttl.
//!
//! It counts; sending and retrying go on elsewhere, on the background thread, which runs until the very end.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

use crate::per_process::{PerProcess, fork_generation};

/// Deletes of this process that were given to a connection and not answered yet.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Whose they are: a forked child waits for none of its parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A connection, whose commands may be held back until the event loop that requested them ends its turn.
pub(crate) trait Flush: Send + Sync {
    /// Sends them at once. Called at the end of the process: it must not wait.
    fn flush(&self);
}

/// This process's connections.
static CONNECTIONS: PerProcess<Mutex<Vec<Weak<dyn Flush>>>> = PerProcess::new();

/// Has this connection send what it holds back when the process ends: its event loop may never end that turn.
pub(crate) fn flush_at_exit(connection: Weak<dyn Flush>) {
    let connections = CONNECTIONS.get_or_make(Mutex::default);
    let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
    connections.retain(|known| known.strong_count() > 0);
    connections.push(connection);
}

/// Flushes all connections of this process.
#[cfg(unix)]
fn flush_all() {
    let Some(connections) = CONNECTIONS.get() else { return };
    // Not waited for: another thread holds it only while it makes a client.
    let Ok(connections) = connections.try_lock() else { return };
    connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.flush());
}

/// One delete that was given to a connection and not answered yet.
///
/// It carries its process's number, so that a child that lets go of its parent's counts nothing down.
pub(crate) struct UnderWay(u32);

impl UnderWay {
    /// It is given to a connection now.
    pub(crate) fn begin() -> Self {
        at_exit();
        let generation = fork_generation();
        // The first one after a fork: what was counted by then is the parent's.
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

/// Has the end of the process wait, once there is something to wait for.
#[cfg(unix)]
fn at_exit() {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    /// How long the end of the process may take because of us.
    const MOMENT: Duration = Duration::from_millis(200);
    static HOOKED: AtomicBool = AtomicBool::new(false);

    /// Not called after `abort` or `_exit`. It must not panic, nor wait for a lock that an ended thread may hold.
    extern "C" fn a_moment() {
        let begun = Instant::now();
        if UNDER_WAY.load(Ordering::Relaxed) > 0 {
            flush_all();
        }
        while UNDER_WAY.load(Ordering::Relaxed) > 0
            && GENERATION.load(Ordering::Relaxed) == fork_generation()
            && begun.elapsed() < MOMENT
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    if !HOOKED.load(Ordering::Relaxed) && !HOOKED.swap(true, Ordering::Relaxed) {
        // SAFETY: the hook reads atomics, wakes the background thread and sleeps.
        unsafe {
            libc::atexit(a_moment);
        }
    }
}

#[cfg(not(unix))]
fn at_exit() {}
