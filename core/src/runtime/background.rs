//! The background thread of a process, which runs connections, renewals and timers.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal. It is part of
//! the core, so that all languages share it. A forked child does not inherit the thread. It starts another one at first
//! use and does not touch the parent's.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::clock::machine::{self, Instant};
use crate::runtime::timers::{self, Timed};
use crate::runtime::{PerProcess, fork_generation, lock};

thread_local! {
    /// Set only on the background thread.
    static BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// The runtime handle of this process's thread.
static CURRENT: PerProcess<Handle> = PerProcess::new();

/// Whether the current thread is the background thread.
pub(crate) fn on_background() -> bool {
    // A thread that is ending has no thread-locals any more. The background thread never ends.
    BACKGROUND.try_with(Cell::get).unwrap_or(false)
}

/// Returns the runtime of the background thread, and starts the thread if necessary.
///
/// Fails if the system has no thread or descriptor left.
pub(crate) fn handle() -> io::Result<Handle> {
    CURRENT.get_or_try_make(|_| true, start).map(|handle| Handle::clone(&handle))
}

/// Starts the thread and its runtime, which exist until the process ends.
fn start() -> io::Result<Handle> {
    // A single thread: its tasks are short, and a second thread would only add hand-overs.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (handle, runtime) = (runtime.handle().clone(), Unblocking(Some(runtime)));
    std::thread::Builder::new().name("redlock".into()).spawn(move || {
        BACKGROUND.set(true);
        if let Some(runtime) = &runtime.0 {
            // Runs until the process ends, because nothing could join the thread.
            runtime.block_on(std::future::pending::<()>());
        }
    })?;
    Ok(handle)
}

/// A runtime for which no thread could be started. Unlike a plain runtime, it can be dropped inside another runtime
/// without a panic.
struct Unblocking(Option<Runtime>);

impl Drop for Unblocking {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sleeps for `time`. May be awaited on any executor. A waiting thread uses its own timer.
pub(crate) async fn sleep(time: Duration) {
    sleep_from(machine::now(), time).await;
}

/// [`sleep`], for a caller that has just read the clock.
pub(crate) async fn sleep_from(now: Instant, time: Duration) {
    let left = match timers::timer(now + time) {
        Some(timer) => match timer.await {
            Timed::Over => return,
            Timed::Elsewhere(left) => left,
        },
        None => time,
    };
    sleep_by_background(left).await;
}

/// Sleeps with a timer of the background thread.
async fn sleep_by_background(time: Duration) {
    let Ok(handle) = handle() else {
        // A forked child without the thread may still poll a future of its parent. Blocking here keeps it from
        // spinning.
        std::thread::sleep(time.min(Duration::from_millis(1)));
        return;
    };
    if !has_locals() {
        return drop(handle.spawn(async move { tokio::time::sleep(time).await }).await);
    }
    let sleep = {
        // A timer belongs to the runtime in which it is made.
        let _inside = handle.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

/// Whether this thread can enter a runtime. A thread that is ending has no thread-locals of tokio any more.
pub(crate) fn has_locals() -> bool {
    !matches!(Handle::try_current(), Err(error) if error.is_thread_local_destroyed())
}

/// A future on the background thread. Dropping this aborts it.
pub struct Task(Running);

/// Where the future is.
enum Running {
    /// On the thread of the process with this fork generation.
    There(AbortHandle, u32),
    /// No thread could be started for it.
    Here(Mutex<Option<Work>>),
    /// Runs to completion.
    Detached,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Task {
    /// Lets the future run to completion.
    pub fn detach(mut self) {
        self.0 = Running::Detached;
    }

    /// Continues a future for which no thread could be started.
    ///
    /// It moves to the background thread if there is one now. Otherwise it is polled once on this thread, so that an
    /// acquire can report the error.
    pub fn nudge(&self) {
        let Running::Here(work) = &self.0 else { return };
        // Locked during the poll, so that concurrent calls take turns.
        let mut work = lock(work);
        if let Ok(handle) = handle() {
            if let Some(work) = work.take() {
                handle.spawn(work);
            }
        } else if let Some(work) = work.as_mut() {
            let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Aborts the task. A future without a thread is dropped.
impl Drop for Task {
    fn drop(&mut self) {
        // In a forked child the parent's runtime may be locked forever, and none of its tasks run.
        if let Running::There(task, generation) = &self.0
            && *generation == fork_generation()
        {
            task.abort();
        }
    }
}

/// Runs a future on the background thread. The future must not block.
///
/// This never fails. Without a thread, the future stays in its [`Task`] until [`Task::nudge`] is called.
pub fn spawn<F>(future: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    Task(match handle() {
        Ok(handle) => Running::There(handle.spawn(future).abort_handle(), fork_generation()),
        Err(_) => Running::Here(Mutex::new(Some(Box::pin(future)))),
    })
}
