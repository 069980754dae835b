//! The end of the process waits a moment for deletes that are under way: a lease that is dropped as the program ends
//! would else keep its key for a whole ttl.
//!
//! It counts; sending and retrying go on elsewhere, on the background thread, which runs until the very end.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::per_process::fork_generation;

/// Deletes of this process that were given to a connection and not answered yet.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Whose they are: a forked child waits for none of its parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

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

    /// Not called after `abort` or `_exit`. It must not panic, nor take a lock that an ended thread may hold.
    extern "C" fn a_moment() {
        let begun = Instant::now();
        while UNDER_WAY.load(Ordering::Relaxed) > 0
            && GENERATION.load(Ordering::Relaxed) == fork_generation()
            && begun.elapsed() < MOMENT
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    if !HOOKED.load(Ordering::Relaxed) && !HOOKED.swap(true, Ordering::Relaxed) {
        // SAFETY: the hook only reads atomics and sleeps.
        unsafe {
            libc::atexit(a_moment);
        }
    }
}

#[cfg(not(unix))]
fn at_exit() {}
