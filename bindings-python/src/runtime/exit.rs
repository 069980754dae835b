//! Waits at exit for the clean-up of acquires that were abandoned by a Ctrl-C or a cancellation.
//!
//! The background thread sends the clean-up. An interpreter that exits at once would end that thread first.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::lock;

/// Longer ago, it was sent or never will be.
const RECENT: Duration = Duration::from_secs(2);
/// How long an exit may take because of us.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// How many are remembered.
const MAX_PENDING: usize = 256;

static OWED: Mutex<Vec<(Instant, Arc<redlock::Lock>)>> = Mutex::new(Vec::new());

/// Remembers that something about this lock was given up with its clean-up under way.
pub(crate) fn note(owing: &Arc<redlock::Lock>) {
    let now = Instant::now();
    let old: Vec<_> = {
        let mut owed = lock(&OWED);
        let crowded = owed.len() >= MAX_PENDING;
        let (old, mut recent): (Vec<_>, Vec<_>) =
            owed.drain(..).partition(|(at, _)| crowded || now.duration_since(*at) > RECENT);
        recent.push((now, Arc::clone(owing)));
        *owed = recent;
        old
    };
    drop(old);
}

/// Waits until the nodes have answered a question that was asked behind the clean-ups.
pub(super) fn wait_for_clean_ups(py: Python<'_>) {
    let owed = std::mem::take(&mut *lock(&OWED));
    let recent = owed.into_iter().filter(|(at, _)| at.elapsed() < RECENT);
    let (done, answers) = mpsc::channel::<()>();
    for (_, owing) in recent {
        let (answer, done) = (owing.inspect(), done.clone());
        redlock::ffi::spawn(async move {
            drop(answer.await);
            drop(done);
        })
        .detach();
    }
    drop(done);
    // Nothing is ever sent: this ends when the last sender is gone.
    let _ = py.detach(move || answers.recv_timeout(MAX_WAIT));
}
