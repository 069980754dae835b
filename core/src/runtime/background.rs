//! The background thread of a process, which runs connections, renewals and timers.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal. It is part of
//! the core, so that all languages share it. A forked child does not inherit the thread. It starts another one at first
//! use and does not touch the parent's.
//!
//! The thread also ends if the program closes its descriptors, as `os.closerange` and `closefrom` do ([`Descriptors`]).
//! All that depends on it is notified ([`descriptors::Dependent`]), and the next use starts another thread.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::runtime::descriptors::{self, Descriptors};
#[cfg(feature = "simulation")]
use crate::runtime::environment::simulated;
use crate::runtime::machine::{self, Instant};
use crate::runtime::timers::{self, Timed};
use crate::runtime::{Made, Owned, PerProcess, lock};

/// How often an idle background thread looks at its descriptors. If they are closed right after an acquire, the wake-up
/// for its lease is lost.
const DESCRIPTORS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

thread_local! {
    /// Set only on the background thread.
    static BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// This process's thread.
static BACKGROUND_THREAD: PerProcess<BackgroundThread> = PerProcess::new();

struct BackgroundThread {
    handle: Handle,
    descriptors: Arc<Descriptors>,
    /// Notified when the thread has nothing left to do.
    idle: Arc<Notify>,
}

/// Whether the current thread is the background thread.
pub(crate) fn on_background() -> bool {
    // A thread that is ending has no thread-locals any more. The background thread never ends.
    BACKGROUND.try_with(Cell::get).unwrap_or(false)
}

fn thread() -> io::Result<Arc<Made<BackgroundThread>>> {
    BACKGROUND_THREAD.get_or_try_make(|thread| !thread.descriptors.are_lost(), start)
}

/// Returns the runtime of the background thread, and starts the thread if necessary.
///
/// Fails if the system has no thread or descriptor left.
pub(crate) fn handle() -> io::Result<Handle> {
    thread().map(|thread| Handle::clone(&thread.handle))
}

/// [`handle`] for a caller that wakes the thread, which panics without its descriptors.
///
/// Looks at them, which takes one cheap system call.
pub(crate) fn usable_handle() -> io::Result<Handle> {
    has_lost_descriptors();
    handle()
}

/// Whether the program has closed the descriptors of the thread. Called after a panic, which is how tokio reports it to
/// a thread that wakes this one. The next call then uses another thread.
pub fn has_lost_descriptors() -> bool {
    BACKGROUND_THREAD.get().is_some_and(|thread| thread.descriptors.check())
}

/// Starts the thread and its runtime, which exist until the process ends.
fn start() -> io::Result<BackgroundThread> {
    let opened = Arc::new(Descriptors::open()?);
    let (checked, ended) = (Arc::clone(&opened), Arc::clone(&opened));
    let idle = Arc::new(Notify::new());
    let parking = Arc::clone(&idle);
    // A single thread: its tasks are short, and a second thread would only add hand-overs.
    let mut builder = Builder::new_current_thread();
    builder.enable_all().on_thread_park(move || {
        if checked.check() {
            // Here, because wakes on this thread need no descriptor.
            notify_of_end();
            // Not by unwinding: it would close descriptors whose numbers may have other owners.
            park_forever();
        }
        parking.notify_waiters();
    });
    let runtime = builder.build()?;
    let (handle, runtime) = (runtime.handle().clone(), Unblocking(Some(runtime)));
    std::thread::Builder::new().name("redlock".into()).spawn(move || {
        BACKGROUND.set(true);
        let runtime = ManuallyDrop::new(runtime);
        if let Some(runtime) = &runtime.0 {
            // Runs until the process ends, because nothing could join the thread. It can panic if the descriptors are
            // closed while it is busy.
            let forever = || {
                runtime.block_on(async {
                    loop {
                        tokio::time::sleep(DESCRIPTORS_CHECK_INTERVAL).await;
                    }
                });
            };
            let _ = catch_unwind(AssertUnwindSafe(forever));
            ended.lose();
            // In the runtime again, where wakes need no descriptor.
            let notify = || runtime.block_on(async { notify_of_end() });
            let _ = catch_unwind(AssertUnwindSafe(notify));
        }
        park_forever();
    })?;
    Ok(BackgroundThread { handle, descriptors: opened, idle })
}

/// Notifies all that depends on the thread. Observers that it has not polled continue on the next one.
fn notify_of_end() {
    descriptors::notify();
    poll_woken();
}

fn park_forever() {
    loop {
        std::thread::park();
    }
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
pub struct Task(RunningTask);

/// Where the future is.
enum RunningTask {
    /// On the background thread. It may belong to a parent whose runtime is locked forever.
    There(Owned<AbortHandle>),
    /// No thread could be started for it.
    Here(Mutex<Option<BackgroundWork>>),
    /// Runs to completion.
    Detached,
    /// In the simulation.
    #[cfg(feature = "simulation")]
    Simulated(futures_util::future::AbortHandle),
}

type BackgroundWork = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Task {
    /// Lets the future run to completion.
    pub fn detach(mut self) {
        self.0 = RunningTask::Detached;
    }

    /// Continues a future for which no thread could be started.
    ///
    /// It moves to the background thread if there is one now. Otherwise it is polled once on this thread, so that an
    /// acquire can report the error.
    pub fn nudge(&self) {
        let RunningTask::Here(work) = &self.0 else { return };
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
        if let RunningTask::There(task) = &self.0 {
            task.ours().into_iter().for_each(AbortHandle::abort);
        }
        #[cfg(feature = "simulation")]
        if let RunningTask::Simulated(task) = &self.0 {
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
    #[cfg(feature = "simulation")]
    let future = match simulated::spawn(future) {
        Ok(task) => return Task(RunningTask::Simulated(task)),
        Err(future) => future,
    };
    Task(match usable_handle() {
        Ok(handle) => RunningTask::There(Owned::new(handle.spawn(future).abort_handle())),
        Err(_) => RunningTask::Here(Mutex::new(Some(Box::pin(future)))),
    })
}

/// Waits until the background thread has nothing left to do before a timer or another thread wakes it.
///
/// Await it on that thread. Elsewhere, work that other threads have queued before may be left.
pub(crate) async fn idle() {
    let Ok(thread) = thread() else { return };
    thread.idle.notified().await;
}

/// A future that waits for one event. Dropping this drops it.
///
/// Unlike a [`Task`], it continues on the next thread if its own has ended. It therefore also reports that.
///
/// In a forked child, dropping it does nothing: a thread of the parent may have been polling its future.
pub struct Observer(Made<Arc<Observing>>);

struct Observing(Mutex<Option<BackgroundWork>>);

impl Observing {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut work = lock(&self.0);
        if work
            .as_mut()
            .is_some_and(|work| work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        {
            *work = None;
        }
    }
}

/// The observers that were woken and not polled yet. Not in tasks, which a thread that ends leaves behind.
static WOKEN_OBSERVERS: PerProcess<Mutex<Vec<Arc<Observing>>>> = PerProcess::new();

impl Wake for Observing {
    fn wake(self: Arc<Self>) {
        lock(&WOKEN_OBSERVERS.get_or_make(Mutex::default)).push(self);
        poll_woken();
    }
}

/// Polls the observers that were woken.
fn poll_woken() {
    let Some(woken) = WOKEN_OBSERVERS.get() else { return };
    if let Ok(handle) = usable_handle() {
        handle.spawn(async move {
            let all = std::mem::take(&mut *lock(&woken));
            for observing in &all {
                // A panic of one keeps no other from its event.
                let _ = catch_unwind(AssertUnwindSafe(|| observing.poll()));
            }
        });
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let work = self.0.ours().and_then(|observing| lock(&observing.0).take());
        drop(work);
    }
}

/// Runs a future that waits for one event on the background thread. It must not block.
pub fn observe<F>(future: F) -> Observer
where
    F: Future<Output = ()> + Send + 'static,
{
    let observing = Arc::new(Observing(Mutex::new(Some(Box::pin(future)))));
    Arc::clone(&observing).wake();
    Observer(Made::new(observing))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fork may come while another thread polls. The child lacks that thread, and the mutex stays locked there.
    #[test]
    fn observer_of_a_parent_is_dropped_without_waiting() {
        let observing = Arc::new(Observing(Mutex::new(None)));
        let polling = lock(&observing.0);
        drop(Observer(Made::of_parent(Arc::clone(&observing))));
        drop(polling);
    }
}
