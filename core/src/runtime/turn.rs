//! The turn of a tokio task, which ends after 128 operations (the cooperative budget).
//!
//! Calls on `memory://` wait for nothing. Without a limit, a task that calls in a loop would keep all other tasks and
//! timers of its thread from running. Calls over a connection wait for replies, and need no limit.

use std::cell::Cell;
use std::task::{Context, Waker};

use tokio::task::coop::{has_budget_remaining, poll_proceed};

thread_local! {
    /// Whether a node replied to the current call at once.
    static REPLIED: Cell<bool> = const { Cell::new(false) };
    /// Whether the last call at the end of a turn was interrupted.
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// Called by a node that replies at once.
pub(crate) fn replies_at_once() {
    let _ = REPLIED.try_with(|replied| replied.set(true));
}

/// Counts a call that has its result, if it waited for nothing.
pub(super) fn count_call() {
    if REPLIED.try_with(Cell::take).unwrap_or(false) {
        // Nothing is to be woken: the call has ended.
        let counted = poll_proceed(&mut Context::from_waker(Waker::noop()));
        let _ = counted.map(|counted| counted.made_progress());
    }
}

/// Whether a call must wait for the next turn of its task. It is woken at once then.
///
/// Only every second time, because the turn may not end: another executor may poll the call within a task. Tokio would
/// wake it after the turn only.
pub(super) fn is_over(cx: &Context<'_>) -> bool {
    if has_budget_remaining() {
        return false;
    }
    let before = INTERRUPTED.try_with(|interrupted| interrupted.replace(!interrupted.get()));
    let waits = !before.unwrap_or(true);
    if waits {
        cx.waker().wake_by_ref();
    }
    waits
}
