//! The one background thread of a process: connections, renewals and timers live here.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal.
//! A forked child has no copy of the thread; it starts its own at first use and leaves the parent's alone.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::runtime::{Builder, Handle};
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

pub(crate) fn handle() -> Handle {
    let generation = fork_generation();
    let current = CURRENT.load();
    if let Some(background) = current.as_ref()
        && background.generation == generation
    {
        return background.handle.clone();
    }
    // No mutex here: one that another thread held during a fork would stay locked in the child for ever.
    let started = start(generation);
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

fn start(generation: u32) -> Arc<Background> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system refused a poller for the background thread");
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("redlock".into())
        .spawn(move || {
            BACKGROUND.set(true);
            runtime.block_on(std::future::pending::<()>());
        })
        .expect("the system refused the background thread");
    Arc::new(Background { generation, handle })
}

/// Sleeps by the background thread's timer; may be awaited on any executor.
pub(crate) fn sleep(time: Duration) -> tokio::time::Sleep {
    let handle = handle();
    let _inside = handle.enter();
    tokio::time::sleep(time)
}

/// A future that runs on the background thread; dropping this ends it.
#[derive(Debug)]
pub struct Task(Option<AbortHandle>);

impl Task {
    /// Lets the future run to its own end.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Runs a future on the background thread. It must not block.
pub fn spawn<F>(future: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    Task(Some(handle().spawn(future).abort_handle()))
}
