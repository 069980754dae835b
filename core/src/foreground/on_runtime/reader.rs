//! The task of a runtime that reads for the others.

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::super::poller::Poller;
use super::super::stack::is_roomy;
use super::shared::Shared;
use crate::runtime::fork_generation;

/// What the runtime is to watch: many connections as one.
struct Readable(Arc<Poller>);

impl AsRawFd for Readable {
    fn as_raw_fd(&self) -> RawFd {
        self.0.descriptor()
    }
}

/// The task that reads, and writes what the others asked.
pub(super) struct Reader {
    shared: Arc<Shared>,
    /// There is always one but in its end.
    descriptor: Option<AsyncFd<Readable>>,
    /// Who is woken in this runtime comes before those that were woken earlier.
    stands_ahead: bool,
    /// Whoever was woken before it had a turn.
    behind: bool,
    /// There may be something to read of which the runtime says nothing.
    more: bool,
}

impl Future for Reader {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.shared.generation != fork_generation() {
            // Its parent's, which goes on there.
            return Poll::Pending;
        }
        this.shared.bell.register(cx.waker());
        if !is_roomy() {
            // Not here: whoever has the room does it.
            return Poll::Ready(());
        }
        if this.look(cx).is_err() {
            return Poll::Ready(());
        }
        this.write(cx)
    }
}

impl Reader {
    /// Made inside of its runtime; panics where that has no I/O.
    pub(super) fn of(
        shared: Arc<Shared>,
        poller: Arc<Poller>,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let poller = Readable(poller);
        // SAFETY: it is open for as long as what is registered, which has it.
        let listed = unsafe { AsyncFd::register_with_interest(poller, Interest::READABLE) };
        let (descriptor, stands_ahead) =
            (Some(listed?), runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
        Ok(Self { shared, descriptor, stands_ahead, behind: false, more: false })
    }

    /// Reads what is there; an error where the runtime ends.
    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut look = std::mem::take(&mut self.more);
        while let Some(Poll::Ready(ready)) =
            self.descriptor.as_ref().map(|descriptor| descriptor.poll_read_ready(cx))
        {
            // Before it is read: what comes afterwards is told.
            ready?.clear_ready();
            look = true;
        }
        if !look {
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
        // Where another thread has it, that one wakes this task.
        self.more = read.unwrap_or(true);
        if read == Some(true) {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Writes what was asked, once all that were woken before had their turn; its end is the client's.
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
        // Where another thread has it, that one wakes this task.
        self.shared.write();
        Poll::Pending
    }
}

/// With its runtime, as a rule: what was asked last goes out in any case, and somebody else reads the answers.
impl Drop for Reader {
    fn drop(&mut self) {
        if self.shared.generation == fork_generation() {
            self.shared.end();
            self.shared.clear();
        } else {
            // The parent's runtime is to watch it still.
            std::mem::forget(self.descriptor.take());
        }
    }
}
