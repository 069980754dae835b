//! A Rust program's way to credentials: its future runs on a thread of its own, which may block.

use std::any::type_name;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Builder;

use super::{Answer, Ask, Credentials};

/// A function of the program's, asked on a thread that is started for each question.
pub(crate) struct OnThread<F>(Arc<F>);

impl<F> OnThread<F> {
    /// Asks this one.
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
        // Without a thread the answer is dropped with the work, which says so.
        let _ = std::thread::Builder::new().name("redlock-credentials".into()).spawn(work);
    }
}

/// In a runtime of its own: whatever the future needs of one is there.
fn run<F, Fut, E>(ask: &F) -> Result<Credentials, String>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Credentials, E>>,
{
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot be asked: {error}"))?;
    // Its text is the program's, and may hold the secret.
    let failed = |_| format!("failed with {}, whose text is not shown", type_name::<E>());
    runtime.block_on(async { ask().await }).map_err(failed)
}
