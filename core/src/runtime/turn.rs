//! The turn of a tokio task, which ends after 128 operations (the cooperative budget).
//!
//! A call that has its result at its first poll counts as an operation. Without that, a loop of such calls would keep
//! all other tasks and timers of its thread from running: calls on `memory://`, or that other callers of the client are
//! ahead of. The other calls wait for something, and end the turn by that.

use std::task::{Context, Poll, Waker};

use tokio::task::coop::{has_budget_remaining, poll_proceed};

/// What a call has done so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CallTurn {
    #[default]
    New,
    /// It waits for the next turn. Only once, because the turn may not end: another executor may poll it within a task.
    /// Tokio would wake it after the turn only.
    Interrupted,
    Begun,
}

impl CallTurn {
    /// Polls the call, unless it must wait for the next turn of its task. It is woken at once then.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if *self == Self::New && !has_budget_remaining() {
            *self = Self::Interrupted;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_first = std::mem::replace(self, Self::Begun) != Self::Begun;
        let polled = poll(cx);
        if is_first && polled.is_ready() {
            // Nothing is to be woken: the call has ended.
            let counted = poll_proceed(&mut Context::from_waker(Waker::noop()));
            let _ = counted.map(|counted| counted.made_progress());
        }
        polled
    }
}
