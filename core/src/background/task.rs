//! Futures and timers on the background thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::process::{handle, left_work};

/// Sleeps by the background thread's timer; may be awaited on any executor.
pub(crate) async fn sleep(time: Duration) {
    let Ok(handle) = handle() else {
        // A forked child without a thread goes on with what its parent began: nothing else keeps it from spinning.
        std::thread::sleep(time.min(Duration::from_millis(1)));
        return;
    };
    let sleep = {
        // A timer belongs to the runtime in which it is made, whoever awaits it.
        let _inside = handle.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

/// A future that runs on the background thread; dropping this ends it.
pub struct Task(Running);

/// Where the future is.
enum Running {
    /// On the thread.
    There(AbortHandle),
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
                left_work();
            }
        } else if let Some(work) = work.as_mut() {
            let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Where no thread was found, the future is dropped with it.
impl Drop for Task {
    fn drop(&mut self) {
        if let Running::There(task) = &self.0 {
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
        Ok(handle) => {
            let task = handle.spawn(future).abort_handle();
            left_work();
            Running::There(task)
        }
        Err(_) => Running::Here(Mutex::new(Some(Box::pin(future)))),
    })
}
