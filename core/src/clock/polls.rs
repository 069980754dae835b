//! Counts the polls of calls. The clock of a test does not move during one, because the call may be between two sleeps.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use super::Clock;
use crate::runtime::{CallTurn, background};

/// How often an advance checks whether earlier polls are over, by the system clock.
const POLLS_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The polls under way, in two generations. An advance waits for the older one, so polls that begin later do not delay
/// it.
#[derive(Default)]
pub struct Polls {
    /// The generation of polls that begin now.
    newer: AtomicUsize,
    under_way: [AtomicUsize; 2],
}

/// A poll under way.
pub(crate) struct Poll<'a>(&'a AtomicUsize);

impl Polls {
    /// Begins a poll, which ends when the result is dropped.
    pub(crate) fn begin_poll(&self) -> Poll<'_> {
        let under_way = &self.under_way[self.newer.load(Ordering::SeqCst) & 1];
        under_way.fetch_add(1, Ordering::SeqCst);
        Poll(under_way)
    }

    /// Begins another generation, and returns the one before.
    pub(crate) fn next_generation(&self) -> usize {
        self.newer.fetch_xor(1, Ordering::SeqCst) & 1
    }

    pub(crate) fn are_over(&self, generation: usize) -> bool {
        self.under_way[generation].load(Ordering::SeqCst) == 0
    }

    /// Waits until the polls of this generation are over.
    pub(crate) async fn until_over(&self, generation: usize) {
        while !self.are_over(generation) {
            background::sleep(POLLS_CHECK_INTERVAL).await;
        }
    }
}

/// Polls a call in the turns of its task. Counts each poll, if the clock waits for them.
pub(crate) fn polled<F: Future + Unpin>(
    clock: &dyn Clock,
    mut call: F,
) -> impl Future<Output = F::Output> {
    let mut turn = CallTurn::default();
    poll_fn(move |cx| {
        let _poll = clock.polls().map(Polls::begin_poll);
        turn.poll(cx, |cx| call.poll_unpin(cx))
    })
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
