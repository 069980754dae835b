//! The state of the task in a tokio runtime: whether it runs in time, and the commands that it will write.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

use super::Driven;
use super::reactor::{Connections, Submitted};
use crate::runtime::machine::{self, Instant};

/// A runtime is blocked, or no thread drives it, if a woken task does not run within this time.
pub(super) const LONGEST_TURN: Duration = Duration::from_millis(20);
/// For how long the background thread does the work of such a runtime: at first, and at most. Each time is twice as
/// long as the one before.
const BLOCKED_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

/// Whether the task runs, and in which runtime.
pub(super) enum TaskState {
    /// It does not run. If it ended, or could not start, that was in this runtime, where it is not started again.
    Idle(Option<Id>),
    /// A thread is just starting it, or a runtime had no I/O driver, and tokio's panic is not caused again. Commands go
    /// to the background thread.
    Closed,
    Started(Id, Pending),
}

impl TaskState {
    /// Whether a task may be started in this runtime.
    pub(super) fn may_start(&self, runtime: &Handle) -> bool {
        matches!(self, Self::Idle(last) if *last != Some(runtime.id()))
    }

    /// The unwritten commands of this runtime, if the task runs there.
    pub(super) fn pending_in(&mut self, runtime: Id) -> Option<&mut Pending> {
        match self {
            Self::Started(id, pending) if *id == runtime => Some(pending),
            _ => None,
        }
    }

    /// The unwritten commands, while the task runs.
    pub(super) fn pending(&mut self) -> Option<&mut Pending> {
        match self {
            Self::Started(_, pending) => Some(pending),
            _ => None,
        }
    }
}

/// The commands that are not written yet, and whether the task runs in time.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) submitted: Submitted,
    /// Starts the checks of the background thread.
    pub(super) watch: Arc<Notify>,
    /// Whether the background thread checks the task.
    is_watched: bool,
    /// Whether a command was submitted after the last check.
    is_used: bool,
    /// Whether the task must run until the next check.
    is_awaited: bool,
    /// The end of the pause, in which the background thread does the work.
    paused_until: Option<Instant>,
    /// The length of the last pause.
    last_pause: Option<Duration>,
}

impl Pending {
    /// Whether the background thread does the work, because the task did not run in time.
    pub(super) fn is_paused(&mut self) -> bool {
        // Without a pause, no command reads the clock.
        self.paused_until = self.paused_until.filter(|until| machine::now() < *until);
        self.paused_until.is_some()
    }

    /// Adds a connection with a command. Returns what starts the checks, if they are to begin.
    pub(super) fn add(&mut self, connection: &Arc<dyn Driven>) -> Option<Arc<Notify>> {
        self.submitted.add(connection);
        self.is_used = true;
        (!std::mem::replace(&mut self.is_watched, true)).then(|| Arc::clone(&self.watch))
    }

    /// Called when the task runs.
    pub(super) fn runs(&mut self) {
        self.is_awaited = false;
    }

    /// Checks whether the task ran since the last check. `reads` is whether it has to read replies, however long ago
    /// the commands were submitted. Returns whether to check again, until which the task must run. If it did not run,
    /// a pause begins, and this returns the connections with unwritten commands.
    pub(super) fn check(&mut self, reads: bool) -> Result<bool, Connections> {
        if std::mem::take(&mut self.is_awaited) {
            let (first, longest) = BLOCKED_PAUSE;
            let pause = self.last_pause.map_or(first, |last| (last * 2).min(longest));
            self.last_pause = Some(pause);
            self.paused_until = Some(machine::now() + pause);
            (self.is_watched, self.is_used) = (false, false);
            return Err(self.submitted.take());
        }
        self.is_watched = std::mem::take(&mut self.is_used) || reads;
        self.is_awaited = self.is_watched;
        Ok(self.is_watched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_is_checked_while_replies_are_outstanding() {
        let mut pending = Pending { is_watched: true, is_used: true, ..Pending::default() };
        assert!(matches!(pending.check(true), Ok(true)));
        pending.runs();
        assert!(matches!(pending.check(true), Ok(true)), "no command, but a reply");
        assert!(pending.check(true).is_err(), "it did not run");
        let mut pending = Pending { is_watched: true, is_used: true, ..Pending::default() };
        assert!(matches!(pending.check(false), Ok(true)));
        pending.runs();
        assert!(matches!(pending.check(false), Ok(false)));
    }
}
