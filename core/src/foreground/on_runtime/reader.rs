//! The task of a runtime that reads for its other tasks.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::super::poller::{Poller, Watched};
use super::super::stack::is_roomy;
use super::shared::Shared;
use crate::runtime::fork_generation;

/// The task that writes the commands of the other tasks and reads the replies.
pub(super) struct Reader {
    shared: Arc<Shared>,
    /// `None` only while it is dropped in a forked child.
    watched: Option<Watched>,
    /// Whether a woken task runs before tasks that were woken earlier, as in a multi-threaded runtime.
    stands_ahead: bool,
    /// Whether it already let the other tasks run first.
    behind: bool,
    /// Whether more may be available, of which the runtime does not notify it.
    more: bool,
}

impl Future for Reader {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.shared.generation != fork_generation() {
            // The task belongs to the parent, and continues there.
            return Poll::Pending;
        }
        this.shared.waker.register(cx.waker());
        if !is_roomy() {
            // The background thread has a larger stack.
            return Poll::Ready(());
        }
        if this.read(cx).is_err() {
            return Poll::Ready(());
        }
        this.write(cx)
    }
}

impl Reader {
    /// Creates the task, inside its runtime. Panics if that has no I/O driver.
    pub(super) fn of(
        shared: Arc<Shared>,
        poller: Arc<Poller>,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let watched = Some(Watched::new(poller)?);
        let stands_ahead = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
        Ok(Self { shared, watched, stands_ahead, behind: false, more: false })
    }

    /// Reads the available replies. Returns an error if the runtime ends.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut ready_to_read = std::mem::take(&mut self.more);
        while let Some(Poll::Ready(ready)) =
            self.watched.as_ref().map(|watched| watched.poll_readable(cx))
        {
            ready?;
            ready_to_read = true;
        }
        if !ready_to_read {
            return Ok(());
        }
        let read = self.shared.with(|reactor| {
            if let Some(asked) = &mut *self.shared.asked()
                && asked.count.0 > 0
            {
                asked.count = (0, asked.count.0);
            }
            reactor.read_all()
        });
        // A thread that uses the connections wakes this task afterwards.
        self.more = read.unwrap_or(true);
        if read == Some(true) {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Writes the commands after all tasks that were woken earlier have run. Completes when the client is gone.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.shared.asked().as_mut().map(|asked| {
            asked.seen();
            asked.ways.is_empty()
        });
        match asked {
            None => return Poll::Ready(()),
            Some(true) => return Poll::Pending,
            Some(false) => {}
        }
        if self.stands_ahead {
            self.behind = !self.behind;
            if self.behind {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        // A thread that uses the connections wakes this task afterwards.
        self.shared.write();
        Poll::Pending
    }
}

/// Usually at the end of the runtime. The background thread writes the last commands and reads the replies.
impl Drop for Reader {
    fn drop(&mut self) {
        if self.shared.generation == fork_generation() {
            self.shared.end();
            self.shared.clear();
        } else {
            // The runtime of the parent still watches it.
            std::mem::forget(self.watched.take());
        }
    }
}
