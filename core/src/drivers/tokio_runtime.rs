//! Futures in a tokio runtime, one task of which writes their commands and reads their replies.
//!
//! That task has the reader roles. The first command of a turn wakes it. It then runs after the tasks that are already
//! in the run queue, so that their commands are written together. It watches one descriptor for replies.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::runtime::{Handle, Id, RuntimeFlavor, is_rt_shutdown_err};
use tokio::sync::Notify;

use super::Driven;
use super::poller::{Poller, Watched};
use super::reactor::Reactor;
use super::task_state::{LONGEST_TURN, Pending, TaskState};
use crate::error::{Error, Result};
use crate::runtime::background::{self, on_background};
use crate::runtime::{
    Exclusive, Made, Visitor, Visitors, fork_generation, has_stack_space, lock, try_lock,
};

const NO_IO: &str = "the runtime has no I/O driver. Build it with enable_io() or enable_all()";
const SHUT_DOWN: &str = "the runtime has shut down. Pass one that runs as long as the client";

/// Drives the connections of a client's tasks in one tokio runtime, until it is dropped.
///
/// That is the runtime of [`Builder::runtime`](crate::Builder::runtime), otherwise the first one in which a task uses
/// the client. If that one ends, the next one follows.
pub(crate) struct RuntimeDriver(Arc<TaskShared>);

thread_local! {
    /// The runtime's state to which this thread has submitted commands since its last write.
    static SUBMITTED: RefCell<Weak<TaskShared>> = const { RefCell::new(Weak::new()) };
}

/// Writes the submitted commands of this thread's runtime, or lets its task write them with those of other tasks. The
/// caller submits no more for now, and holds no lock.
pub(crate) fn flush() {
    if let Ok(Some(shared)) = SUBMITTED.try_with(|submitted| submitted.take().upgrade()) {
        shared.flush();
    }
}

impl RuntimeDriver {
    /// Serves the first runtime in which a task uses the client.
    pub(crate) fn for_first() -> Arc<Self> {
        Arc::new(Self(Arc::new(TaskShared::new(false))))
    }

    pub(crate) fn for_chosen(runtime: &Handle) -> Result<Arc<Self>> {
        let shared = Arc::new(TaskShared::new(true));
        shared.start(runtime)?;
        Ok(Arc::new(Self(shared)))
    }

    /// Checks whether the task runs, as the background thread does.
    #[cfg(test)]
    pub(crate) fn check(&self, runtime: &Handle) {
        self.0.check(runtime.id());
    }

    /// Records that a command was submitted to a connection. Returns true if this thread's runtime writes it.
    pub(super) fn submit(&self, connection: &Arc<dyn Driven>) -> bool {
        let Self(shared) = self;
        if !shared.task.is_ours() || on_background() {
            return false;
        }
        let Ok(here) = Handle::try_current() else { return false };
        let mut task = lock(&shared.task);
        if task.may_start(&here) && shared.may_choose() {
            drop(task);
            // Without it, the background thread does the work.
            let _ = shared.start(&here);
            task = lock(&shared.task);
        }
        let Some(new) = task.pending_in(here.id()) else { return false };
        if new.is_paused() {
            return false;
        }
        let this = Arc::downgrade(shared);
        let replace = |submitted: &RefCell<_>| submitted.replace(Weak::clone(&this));
        let before = SUBMITTED.try_with(replace).unwrap_or_default();
        let watch = new.add(connection);
        if !before.ptr_eq(&this) {
            new.submitted.count();
        }
        drop(task);
        // The runtime may be blocked before the command is written, or have ended.
        connection.supervise();
        watch.into_iter().for_each(|watch| watch.notify_one());
        // A task that uses several clients at once only flushes the last one.
        if let Some(other) = before.upgrade().filter(|other| !Arc::ptr_eq(other, shared)) {
            other.waker.wake();
        }
        true
    }
}

impl Drop for RuntimeDriver {
    fn drop(&mut self) {
        // The client is gone. In a forked child, its mutex may be locked forever.
        if self.0.task.is_ours() {
            self.0.end_task();
            self.0.waker.wake();
        }
    }
}

/// The state that the tasks share with the one that drives their connections.
struct TaskShared {
    is_chosen: bool,
    task: Made<Mutex<TaskState>>,
    /// The mark [`Visitor::Task`] has the task woken afterwards, [`Visitor::Thread`] has the connections removed.
    reactor: Exclusive<Reactor>,
    waker: AtomicWaker,
}

/// Checks a task from the background thread, while commands are submitted.
async fn watch(shared: Arc<TaskShared>, runtime: Id, begins: Arc<Notify>) {
    loop {
        begins.notified().await;
        loop {
            background::sleep(LONGEST_TURN).await;
            match shared.check(runtime) {
                Some(true) => {}
                Some(false) => break,
                None => return,
            }
        }
    }
}

impl TaskShared {
    fn new(is_chosen: bool) -> Self {
        Self {
            is_chosen,
            task: Made::new(Mutex::new(TaskState::Idle(None))),
            reactor: Exclusive::new(Reactor::default()),
            waker: AtomicWaker::new(),
        }
    }

    /// Whether the task may be started in a runtime that the user did not choose.
    ///
    /// Such a runtime may have no I/O driver. Tokio reports that by a panic, which must neither end the program nor
    /// follow another one. In a forked child, the runtime may be that of the parent, whose epoll must stay as it is.
    fn may_choose(&self) -> bool {
        let may_panic = cfg!(panic = "unwind") && !std::thread::panicking() && has_stack_space();
        may_panic && !self.is_chosen && fork_generation() == 0
    }

    /// Wakes the task, which must run until the next check. If it did not run since the last one, the background thread
    /// writes its commands and reads its replies. Returns whether to check again, or `None` if it has ended.
    fn check(&self, runtime: Id) -> Option<bool> {
        let reads = self.with(|reactor| reactor.awaited().next().is_some()).unwrap_or(true);
        // The background thread waits for no thread that may be suspended.
        let Some(mut task) = try_lock(&self.task) else { return Some(true) };
        let checked = task.pending_in(runtime)?.check(reads);
        drop(task);
        match &checked {
            Ok(true) => self.waker.wake(),
            Ok(false) => {}
            Err(unwritten) => {
                unwritten.iter().for_each(|connection| connection.delegate());
                self.clear();
            }
        }
        Some(checked.unwrap_or(false))
    }

    /// Starts the task in a runtime. Without a task, everything runs on the background thread. That is so if no
    /// descriptor is left, and on systems without epoll.
    fn start(self: &Arc<Self>, runtime: &Handle) -> Result<()> {
        let mut task = lock(&self.task);
        if !task.may_start(runtime) {
            return Ok(());
        }
        let before = std::mem::replace(&mut *task, TaskState::Closed);
        drop(task);
        let create = || {
            let poller = Arc::new(Poller::new()?);
            // The previous task may not have left it yet.
            let replaced = self.with(|reactor| *reactor = Reactor::watched_by(Arc::clone(&poller)));
            replaced.ok_or(io::ErrorKind::WouldBlock)?;
            let _inside = runtime.enter();
            DriverTask::new(Arc::clone(self), poller, runtime)
        };
        // Tokio panics if the runtime has no I/O driver. This must not happen later, in the task. Its panic hook may
        // use the client, so no lock is held.
        let created = catch_unwind(AssertUnwindSafe(create));
        let (pending, id) = (Pending::default(), runtime.id());
        let begins = Arc::clone(&pending.watch);
        let (state, started) = match &created {
            Ok(Ok(_)) => (TaskState::Started(id, pending), Ok(())),
            Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => (before, Ok(())),
            Ok(Err(error)) if is_rt_shutdown_err(error) => {
                (TaskState::Idle(Some(id)), Err(SHUT_DOWN))
            }
            Ok(Err(_)) => (TaskState::Idle(Some(id)), Ok(())),
            Err(_) => (TaskState::Closed, Err(NO_IO)),
        };
        *lock(&self.task) = state;
        if let Ok(Ok(task)) = created {
            background::spawn(watch(Arc::clone(self), id, begins)).detach();
            // A runtime that has ended drops the task. A forked child does not, because the runtime of the parent still
            // watches its descriptor.
            drop(runtime.spawn(Made::new(task)));
        }
        started.map_err(Error::invalid)
    }

    /// Uses the connections. Returns `None` if another thread does, which then wakes the task.
    fn with<T>(&self, act: impl FnOnce(&mut Reactor) -> T) -> Option<T> {
        let (result, visitors) = self.reactor.try_with(Visitor::Task, act)?;
        self.leave(visitors);
        Some(result)
    }

    /// Removes the connections. If another thread uses them, that thread removes them afterwards. It may be suspended
    /// until then: the regular checks of the connections find their replies.
    fn clear(&self) {
        let cleared = self.reactor.try_with(Visitor::Thread, Reactor::clear);
        cleared.into_iter().for_each(|((), visitors)| self.leave(visitors));
    }

    /// Does what other threads came for. It waits for none of them, because the background thread calls it too.
    fn leave(&self, visitors: Visitors) {
        if visitors.include(Visitor::Task) {
            self.waker.wake();
        }
        if visitors.include(Visitor::Thread) {
            self.clear();
        }
    }

    /// Writes the commands if they must not wait for others. Otherwise, the task writes them.
    fn flush(&self) {
        if !self.task.is_ours() {
            return;
        }
        let is_due = || self.use_pending(|pending| pending.submitted.is_due());
        if !has_stack_space() || is_due() != Some(true) || self.write().is_none() {
            self.waker.wake();
        }
    }

    /// Writes the commands. Returns `None` if another thread uses the connections.
    fn write(&self) -> Option<()> {
        self.with(|reactor| {
            let submitted = self.use_pending(|pending| pending.submitted.take());
            reactor.write(submitted.unwrap_or_default());
        })
    }

    /// Uses what is pending. Returns `None` if the task does not run.
    fn use_pending<T>(&self, act: impl FnOnce(&mut Pending) -> T) -> Option<T> {
        lock(&self.task).pending().map(act)
    }

    /// Ends the task. The background thread does the remaining work.
    fn end_task(&self) {
        let mut task = lock(&self.task);
        let TaskState::Started(runtime, pending) = &mut *task else { return };
        let (runtime, mut pending) = (*runtime, std::mem::take(pending));
        *task = TaskState::Idle(Some(runtime));
        drop(task);
        pending.submitted.delegate();
        pending.watch.notify_one();
    }
}

/// The task that writes the commands of the other tasks and reads the replies.
struct DriverTask {
    shared: Arc<TaskShared>,
    watched: Watched,
    /// Whether a woken task runs before tasks that were woken earlier, as in a multi-threaded runtime.
    stands_ahead: bool,
    /// Whether it already let the other tasks run first.
    behind: bool,
    /// Whether more may be available, of which the runtime does not notify it.
    more: bool,
}

impl Future for DriverTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.shared.waker.register(cx.waker());
        // The background thread has a larger stack.
        if !has_stack_space() || this.read_available(cx).is_err() {
            return Poll::Ready(());
        }
        this.write(cx)
    }
}

impl DriverTask {
    /// Creates the task, inside its runtime. Panics if that has no I/O driver.
    fn new(shared: Arc<TaskShared>, poller: Arc<Poller>, runtime: &Handle) -> io::Result<Self> {
        let watched = Watched::new(poller)?;
        let stands_ahead = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
        Ok(Self { shared, watched, stands_ahead, behind: false, more: false })
    }

    /// Reads the available replies. Returns an error if the runtime ends.
    fn read_available(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut is_readable = std::mem::take(&mut self.more);
        while let Poll::Ready(ready) = self.watched.poll_readable(cx) {
            ready?;
            is_readable = true;
        }
        if !is_readable {
            return Ok(());
        }
        let read = self.shared.with(|reactor| {
            self.shared.use_pending(|pending| pending.submitted.begin_period());
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
        let is_empty = self.shared.use_pending(|pending| {
            pending.runs();
            pending.submitted.is_empty()
        });
        let Some(is_empty) = is_empty else { return Poll::Ready(()) };
        self.behind = !is_empty && self.stands_ahead && !self.behind;
        if self.behind {
            cx.waker().wake_by_ref();
        } else if !is_empty {
            // A thread that uses the connections wakes this task afterwards.
            self.shared.write();
        }
        Poll::Pending
    }
}

/// Usually at the end of the runtime. The background thread writes the last commands and reads the replies.
impl Drop for DriverTask {
    fn drop(&mut self) {
        self.shared.end_task();
        self.shared.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::IdleConnection;

    /// The background thread removes them. The thread that uses them, and one that submits, may be suspended.
    #[test]
    fn connections_are_removed_without_waiting_for_another_thread() {
        let (shared, connection) = (TaskShared::new(false), IdleConnection::shared());
        let _submits = lock(&shared.task);
        shared.with(|reactor| {
            reactor.write([Arc::clone(&connection)].into_iter().collect());
            shared.clear();
            assert_eq!(Arc::strong_count(&connection), 2, "the thread inside still uses it");
        });
        assert_eq!(Arc::strong_count(&connection), 1);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn task_is_started_after_another_thread_has_left_the_connections() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let shared = Arc::new(TaskShared::new(false));
        let start = || shared.start(runtime.handle()).map(|()| shared.use_pending(|_| ()));
        assert!(shared.with(|_| start()).unwrap().unwrap().is_none());
        assert!(start().unwrap().is_some());
    }
}
