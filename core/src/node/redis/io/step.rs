//! The current step of an attempt to connect, which the error of a time-out names.
//!
//! An attempt runs in a scope, and code that waits for something reports that with [`enter`]. It need not know to which
//! attempt it belongs.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task_local;

use crate::error::seconds;
use crate::node::Fault;
use crate::runtime::environment::{self, timeout};
use crate::runtime::lock;
use crate::runtime::machine::Instant;

task_local! {
    /// The attempt of this task, and when it ends.
    static CURRENT_STEP: (Step, Instant);
}

/// The step that an attempt is at. All clones show the same attempt.
#[derive(Clone, Default)]
pub(crate) struct Step(Arc<Mutex<Cow<'static, str>>>);

impl Step {
    /// Returns what the attempt waits for. Empty before the first step.
    pub(crate) fn current(&self) -> String {
        lock(&self.0).clone().into_owned()
    }

    /// Runs one attempt to connect. If it takes longer than `limit`, returns an error that names its last step.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        attempt: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let end = environment::now() + limit;
        let attempt = CURRENT_STEP.scope((self.clone(), end), attempt);
        timeout(limit, attempt).await.unwrap_or_else(|_| Err(self.too_long(limit)))
    }

    fn too_long(&self, limit: Duration) -> Fault {
        let (limit, step) = (seconds(limit), self.current());
        let waits = if step.is_empty() { "" } else { ", waiting for " };
        Fault::new(format!("no connection within {limit}{waits}{step}")).unreached()
    }
}

/// Reports what the attempt of this task waits for from now on. Outside of an attempt, it has no effect.
pub(crate) fn enter(step: impl Into<Cow<'static, str>>) {
    let _ = CURRENT_STEP.try_with(|(current, _)| *lock(&current.0) = step.into());
}

/// Returns how much time the attempt of this task has left. Outside of an attempt, time is unlimited.
pub(super) fn time_left() -> Duration {
    CURRENT_STEP.try_with(|(_, end)| end.since(environment::now())).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn error_names_the_last_step_of_its_own_attempt() {
        let attempt = |step: &'static str| async move {
            let limit = Duration::from_secs(1);
            let attempt = async {
                enter("the first step");
                tokio::task::yield_now().await;
                enter(step);
                pending::<Result<(), Fault>>().await
            };
            Step::default().within(limit, attempt).await.unwrap_err().to_string()
        };
        let (one, other) = tokio::join!(attempt("the lookup of a"), attempt("the reply to HELLO"));
        assert_eq!(one, "no connection within 1.000 s, waiting for the lookup of a");
        assert_eq!(other, "no connection within 1.000 s, waiting for the reply to HELLO");
        enter("outside of an attempt");
    }

    #[tokio::test]
    async fn time_left_counts_to_the_end_of_the_attempt() {
        let limit = Duration::from_secs(3600);
        let attempt = async {
            let left = time_left();
            assert!(left <= limit);
            while time_left() == left {
                tokio::task::yield_now().await;
            }
            assert!(time_left() < left);
            Ok(())
        };
        Step::default().within(limit, attempt).await.unwrap();
        assert_eq!(time_left(), Duration::MAX, "outside of an attempt");
    }
}
