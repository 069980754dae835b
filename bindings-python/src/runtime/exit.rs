//! Waits at exit for the clean-up of acquires and releases that an exception ended, or that no task awaited.
//!
//! The background thread sends the clean-up. An interpreter that exits at once would end that thread first.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::lock;

/// The maximum age of a clean-up to wait for. An older one was sent or never will be.
const MAX_AGE: Duration = Duration::from_secs(2);
/// The maximum delay of an exit.
const MAX_CLEANUP_WAIT: Duration = Duration::from_millis(200);
/// The maximum number of locks to remember.
const MAX_PENDING: usize = 256;

static PENDING: Mutex<Vec<(Instant, Arc<redlock::Lock>)>> = Mutex::new(Vec::new());

/// Records that a call on this lock was interrupted and its clean-up is under way.
pub(crate) fn record_interrupted(interrupted: &Arc<redlock::Lock>) {
    let now = Instant::now();
    let old: Vec<_> = {
        let mut pending = lock(&PENDING);
        let crowded = pending.len() >= MAX_PENDING;
        let (old, mut recent): (Vec<_>, Vec<_>) =
            pending.drain(..).partition(|(at, _)| crowded || now.duration_since(*at) > MAX_AGE);
        recent.push((now, Arc::clone(interrupted)));
        *pending = recent;
        old
    };
    drop(old);
}

/// Waits until the nodes have replied to a command that was sent after the clean-ups.
pub(super) fn wait_for_clean_ups(py: Python<'_>) {
    let pending = std::mem::take(&mut *lock(&PENDING));
    let recent = pending.into_iter().filter(|(at, _)| at.elapsed() < MAX_AGE);
    let (done, answers) = mpsc::channel::<()>();
    for (_, lock) in recent {
        let (answer, done) = (lock.inspect(), done.clone());
        redlock::ffi::spawn(async move {
            drop(answer.await);
            drop(done);
        })
        .detach();
    }
    drop(done);
    // Nothing is ever sent. The channel closes when the last sender is dropped.
    let _ = py.detach(move || answers.recv_timeout(MAX_CLEANUP_WAIT));
}
