//! This process's runtime, and the thread that has it.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};

use super::leadership::Leadership;
use crate::per_process::{Made, PerProcess};

thread_local! {
    /// Set on the thread that does the work, while it does.
    pub(super) static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// What the work is done with.
pub(super) struct Process {
    pub(super) runtime: Unblocking,
    /// Who does it.
    pub(super) leadership: Leadership,
}

/// This process's.
static CURRENT: PerProcess<Arc<Process>> = PerProcess::new();

/// Whether this thread does the work, which the background thread does unless somebody waits.
pub(crate) fn on_background() -> bool {
    // A thread that is ending has no locals any more, and does nothing.
    WORKING.try_with(Cell::get).unwrap_or(false)
}

/// Starts the background thread, unless this process has it; an error if the system has no thread or descriptor for it.
pub(crate) fn handle() -> io::Result<Handle> {
    process().map(|process| process.runtime.handle().clone())
}

/// What this process has, from now on.
pub(super) fn process() -> io::Result<Arc<Made<Arc<Process>>>> {
    CURRENT.get_or_try_make(|_| true, start)
}

/// The thread and its runtime, for as long as the process lives.
fn start() -> io::Result<Arc<Process>> {
    // One thread at a time: what runs here is short, and a second one would only cost hand-overs.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let runtime = Unblocking(ManuallyDrop::new(runtime));
    let process = Arc::new(Process { runtime, leadership: Leadership::default() });
    let its = Arc::clone(&process);
    std::thread::Builder::new().name("redlock".into()).spawn(move || {
        WORKING.set(true);
        // For as long as the process lives: nobody would be there to join it.
        its.leadership.stand_by(&its.runtime);
    })?;
    Ok(process)
}

/// This thread has left something to be done: somebody is to look at it at once.
pub(crate) fn left_work() {
    if !on_background()
        && let Some(process) = CURRENT.get()
    {
        process.leadership.call();
    }
}

/// A runtime, for which no thread may be found; it may be dropped in the middle of another one, where a plain one
/// panics.
pub(super) struct Unblocking(ManuallyDrop<Runtime>);

impl Deref for Unblocking {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Drop for Unblocking {
    fn drop(&mut self) {
        // SAFETY: this is its end, and nothing uses it any more.
        unsafe { ManuallyDrop::take(&mut self.0) }.shutdown_background();
    }
}
