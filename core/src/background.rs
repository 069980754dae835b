//! The one background thread of a process: connections, renewals and timers live here.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal.
//! A forked child has no copy of the thread; it starts its own at first use and leaves the parent's alone.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

thread_local! {
    static BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

static GENERATION: AtomicU32 = AtomicU32::new(0);
static CURRENT: ArcSwapOption<Background> = ArcSwapOption::const_empty();

struct Background {
    generation: u32,
    handle: Handle,
}

/// How many forks lie between the first process and this one; what was made under another number is the parent's.
pub fn fork_generation() -> u32 {
    #[cfg(unix)]
    {
        static HOOK: Once = Once::new();
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the hook only adds to an atomic, which is safe between fork and exec.
        HOOK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Whether this is the background thread.
pub(crate) fn on_background() -> bool {
    BACKGROUND.try_with(Cell::get).unwrap_or(false)
}

/// Starts the background thread, unless this process has it; an error if the system has no thread or descriptor for it.
pub(crate) fn handle() -> io::Result<Handle> {
    let generation = fork_generation();
    let current = CURRENT.load();
    if let Some(background) = current.as_ref()
        && background.generation == generation
    {
        return Ok(background.handle.clone());
    }
    // No mutex here: one that another thread held during a fork would stay locked in the child for ever.
    let started = start(generation)?;
    let previous = CURRENT.compare_and_swap(&current, Some(started));
    if let Some(parents) = previous.as_ref()
        && parents.generation != generation
    {
        // Dropping the last handle of the parent's runtime here could wait for threads that do not exist.
        std::mem::forget(Arc::clone(parents));
    }
    drop((previous, current));
    handle()
}

fn start(generation: u32) -> io::Result<Arc<Background>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (handle, runtime) = (runtime.handle().clone(), Unblocking(Some(runtime)));
    std::thread::Builder::new().name("redlock".into()).spawn(move || {
        BACKGROUND.set(true);
        if let Some(runtime) = &runtime.0 {
            runtime.block_on(std::future::pending::<()>());
        }
    })?;
    Ok(Arc::new(Background { generation, handle }))
}

/// A runtime that no thread could be found for; it may be dropped in the middle of another one, where a plain one panics.
struct Unblocking(Option<Runtime>);

impl Drop for Unblocking {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sleeps by the background thread's timer; may be awaited on any executor.
pub(crate) async fn sleep(time: Duration) {
    let Ok(handle) = handle() else {
        // A forked child without a thread goes on with what its parent began: nothing else keeps it from spinning.
        std::thread::sleep(time.min(Duration::from_millis(1)));
        return;
    };
    let sleep = {
        let _inside = handle.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

/// A future that runs on the background thread; dropping this ends it.
pub struct Task(Running);

enum Running {
    There(AbortHandle),
    /// No thread could be had for it.
    Here(Mutex<Option<Work>>),
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

impl Drop for Task {
    fn drop(&mut self) {
        if let Running::There(task) = &self.0 {
            task.abort();
        }
    }
}

/// Runs a future on the background thread. It must not block.
pub fn spawn<F>(future: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    Task(match handle() {
        Ok(handle) => Running::There(handle.spawn(future).abort_handle()),
        Err(_) => Running::Here(Mutex::new(Some(Box::pin(future)))),
    })
}
