//! The one background thread of a process: connections, renewals and timers live here.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal; and it is
//! in the core, so that three languages have the same one. A forked child has no copy of the thread; it starts its
//! own at first use and leaves the parent's alone.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::clock::instant::Instant;
use crate::clock::machine;
use crate::foreground::{self, Timed};
use crate::per_process::{PerProcess, fork_generation};

thread_local! {
    /// Set on the background thread alone.
    static BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// The way to this process's thread.
static CURRENT: PerProcess<Handle> = PerProcess::new();

/// Whether this is the background thread.
pub(crate) fn on_background() -> bool {
    // A thread that is ending has no locals any more, and is not this one.
    BACKGROUND.try_with(Cell::get).unwrap_or(false)
}

/// Starts the background thread, unless this process has it; an error if the system has no thread or descriptor for it.
pub(crate) fn handle() -> io::Result<Handle> {
    CURRENT.get_or_try_make(|_| true, start).map(|handle| Handle::clone(&handle))
}

/// The thread and its runtime, for as long as the process lives.
fn start() -> io::Result<Handle> {
    // One thread: what runs here is short, and a second one would only cost hand-overs.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (handle, runtime) = (runtime.handle().clone(), Unblocking(Some(runtime)));
    std::thread::Builder::new().name("redlock".into()).spawn(move || {
        BACKGROUND.set(true);
        if let Some(runtime) = &runtime.0 {
            // For as long as the process lives: nobody would be there to join it.
            runtime.block_on(std::future::pending::<()>());
        }
    })?;
    Ok(handle)
}

/// A runtime that no thread could be found for; it may be dropped in the middle of another one, where a plain one
/// panics.
struct Unblocking(Option<Runtime>);

impl Drop for Unblocking {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sleeps; may be awaited on any executor. A thread that waits keeps the time by itself.
pub(crate) async fn sleep(time: Duration) {
    sleep_from(machine::now(), time).await;
}

/// [`sleep`], for whoever has just looked at the clock.
pub(crate) async fn sleep_from(now: Instant, time: Duration) {
    let left = match foreground::timer(now + time) {
        Some(timer) => match timer.await {
            Timed::Over => return,
            Timed::Elsewhere(left) => left,
        },
        None => time,
    };
    sleep_by_background(left).await;
}

/// Sleeps by the background thread's timer.
async fn sleep_by_background(time: Duration) {
    let Ok(handle) = handle() else {
        // A forked child without a thread goes on with what its parent began: nothing else keeps it from spinning.
        std::thread::sleep(time.min(Duration::from_millis(1)));
        return;
    };
    if !has_locals() {
        return there(async move { tokio::time::sleep(time).await }).await;
    }
    let sleep = {
        // A timer belongs to the runtime in which it is made, whoever awaits it.
        let _inside = handle.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

/// Whether this thread can enter a runtime: one that is ending has no locals of tokio's any more.
pub(crate) fn has_locals() -> bool {
    !matches!(Handle::try_current(), Err(error) if error.is_thread_local_destroyed())
}

/// Awaits a future on the background thread, if there is one.
pub(crate) async fn there(future: impl Future<Output = ()> + Send + 'static) {
    if let Ok(handle) = handle() {
        drop(handle.spawn(future).await);
    }
}

/// A future that runs on the background thread; dropping this ends it.
pub struct Task(Running);

/// Where the future is.
enum Running {
    /// On the thread of the process that forked so often.
    There(AbortHandle, u32),
    /// No thread could be had for it.
    Here(Mutex<Option<Work>>),
    /// Nobody ends it any more.
    Detached,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Task {
    /// Lets the future run to its own end.
    pub fn detach(mut self) {
        self.0 = Running::Detached;
    }

    /// Has a future go on that no thread could be had for: on the background thread if there is one now, else one step
    /// on this thread, in which whoever asks for a lock is told why there is none.
    pub fn nudge(&self) {
        let Running::Here(work) = &self.0 else { return };
        // Held while it is polled: two who nudge at once take turns.
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(handle) = handle() {
            if let Some(work) = work.take() {
                handle.spawn(work);
            }
        } else if let Some(work) = work.as_mut() {
            let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Where no thread was found, the future is dropped with it.
impl Drop for Task {
    fn drop(&mut self) {
        // In a forked child the parent's runtime may be locked for ever, and nothing runs there that could be ended.
        if let Running::There(task, generation) = &self.0
            && *generation == fork_generation()
        {
            task.abort();
        }
    }
}

/// Runs a future on the background thread. It must not block.
///
/// It never fails: without a thread the future waits in its [`Task`] until it is nudged.
pub fn spawn<F>(future: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    Task(match handle() {
        Ok(handle) => Running::There(handle.spawn(future).abort_handle(), fork_generation()),
        Err(_) => Running::Here(Mutex::new(Some(Box::pin(future)))),
    })
}

/// Where a client's own tasks run: on the background thread, but those of a test's client, which may say where.
#[derive(Clone, Default)]
pub(crate) struct Host {
    #[cfg(feature = "testing")]
    pub(crate) runtime: Option<Handle>,
}

impl Host {
    /// Runs a future to its own end. It must not block.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all hosts are one then")
    )]
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        #[cfg(feature = "testing")]
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(MovesOn(Some(Box::pin(future)))));
            return;
        }
        spawn(future).detach();
    }
}

/// A future that outlives the runtime it runs on: where that ends, it goes on on the background thread.
#[cfg(feature = "testing")]
struct MovesOn(Option<Work>);

#[cfg(feature = "testing")]
impl Future for MovesOn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> std::task::Poll<()> {
        let done = self.0.as_mut().is_none_or(|work| work.as_mut().poll(cx).is_ready());
        if done {
            self.0 = None;
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    }
}

#[cfg(feature = "testing")]
impl Drop for MovesOn {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            spawn(work).detach();
        }
    }
}
