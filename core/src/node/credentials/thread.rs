//! Runs the credentials callback of a Rust program on a separate thread, which may block.

use std::any::type_name;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Builder;

use super::{Answer, Ask, Credentials};

/// A callback that runs on a new thread for each request.
pub(crate) struct OnThread<F>(Arc<F>);

impl<F> OnThread<F> {
    /// Creates a source that calls `ask`.
    pub(crate) fn new(ask: F) -> Self {
        Self(Arc::new(ask))
    }
}

impl<F, Fut, E> Ask for OnThread<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credentials, E>>,
{
    fn ask(&self, answer: Answer) {
        let ask = Arc::clone(&self.0);
        let work = move || {
            let asked = catch_unwind(AssertUnwindSafe(|| run(&*ask)));
            answer.give(asked.unwrap_or_else(|_| Err("panicked".to_owned())));
        };
        // If no thread can be started, the answer is dropped, which reports an error.
        let _ = std::thread::Builder::new().name("redlock-credentials".into()).spawn(work);
    }
}

/// Runs the callback in a new runtime, so that its future can use timers and I/O.
fn run<F, Fut, E>(ask: &F) -> Result<Credentials, String>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Credentials, E>>,
{
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot be called: {error}"))?;
    // The text of the error comes from the program and may contain the secret.
    let failed = |_| format!("failed with {}, whose text is not shown", type_name::<E>());
    runtime.block_on(async { ask().await }).map_err(failed)
}
