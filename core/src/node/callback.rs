//! Calls of a function that the program passed as an option: `credentials`, `address_map`.
//!
//! No thread of this library waits for the function, which may take any time. All connections that need the result of
//! the same call share it. While a call hangs, it is not repeated.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::error::seconds;
use crate::node::Fault;
use crate::node::shared_request::{Completion, SharedRequest};
use crate::runtime::environment;
use crate::runtime::{PerProcess, background, lock};
use crate::text::spelled;

/// How long an attempt to connect waits for the function. The connection must fit into the same attempt.
pub(crate) const CONNECTING: Duration = Duration::from_millis(1500);

const NONE: &str = "returned nothing";

/// Receives the result of a call. Dropping it reports that there is none.
pub struct Answer<A>(oneshot::Sender<Result<A, String>>);

impl<A> Answer<A> {
    /// Sends the result, or the reason why there is none, without secrets.
    pub fn send(self, given: Result<A, String>) {
        // The receiver may be gone.
        let _ = self.0.send(given);
    }
}

/// Calls the function of the program with arguments. It must not block: the function runs elsewhere and may take any
/// time.
pub type Function<Q, A> = dyn Fn(Q, Answer<A>) + Send + Sync;

/// Checks a result. Also receives when the function was called.
type Check<A, T> = dyn Fn(A, Instant) -> Result<T, String> + Send + Sync;

/// A function of the program, with its calls under way. The nodes of a client share it.
pub(crate) struct Callback<Q, A, T>(Arc<SharedCallback<Q, A, T>>);

impl<Q, A, T> Clone for Callback<Q, A, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct SharedCallback<Q, A, T> {
    /// The name of the option.
    option: &'static str,
    function: Arc<Function<Q, A>>,
    check: Box<Check<A, T>>,
    /// The calls under way, and results for which no connection waited any more. A forked child has neither the calls
    /// nor the threads of its parent.
    calls: PerProcess<Mutex<Calls<Q, T>>>,
}

type Calls<Q, T> = HashMap<Q, Option<SharedRequest<Result<T, String>>>>;

impl<Q, A, T> Callback<Q, A, T>
where
    Q: Clone + Eq + Hash + Send + Sync + 'static,
    A: Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(crate) fn new(
        option: &'static str,
        function: Arc<Function<Q, A>>,
        check: impl Fn(A, Instant) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        let (check, calls) = (Box::new(check), PerProcess::new());
        Self(Arc::new(SharedCallback { option, function, check, calls }))
    }

    /// Returns the result of the function within this time. A late result of an earlier call must be `usable`.
    pub(crate) async fn result(
        &self,
        arguments: Q,
        usable: impl Fn(&T) -> bool,
        within: Duration,
    ) -> Result<T, Fault> {
        let call = async {
            let call = self.known(&arguments, usable).unwrap_or_else(|| self.start_call(arguments));
            call.result().await.unwrap_or_else(|| Err(NONE.to_owned()))
        };
        let late = |_| Err(format!("did not return within {}", seconds(within)));
        let result = environment::timeout(within, call).await.unwrap_or_else(late);
        result.map_err(|why| Fault::new(format!("{} {why}", spelled(self.0.option))))
    }

    /// Returns the call under way, or one with a result that can still be used.
    fn known(
        &self,
        arguments: &Q,
        usable: impl Fn(&T) -> bool,
    ) -> Option<SharedRequest<Result<T, String>>> {
        let now = environment::now();
        self.with(|calls| {
            calls.retain(|_, call| call.as_ref().is_some_and(|call| !call.is_over(now)));
            let usable = |result: &Result<T, String>| result.as_ref().is_ok_and(&usable);
            SharedRequest::join(calls.get_mut(arguments)?, now, usable)
        })
    }

    /// Calls the function. The background thread awaits the result, even if no connection waits for it any more.
    fn start_call(&self, arguments: Q) -> SharedRequest<Result<T, String>> {
        let called = environment::now();
        let (sender, result) = oneshot::channel();
        (self.0.function)(arguments.clone(), Answer(sender));
        // Only now. If the call panics, later connections must not wait for its result.
        let (call, completion) = SharedRequest::pending();
        let joined = call.clone();
        self.with(|calls| calls.insert(arguments.clone(), Some(call)));
        let this = self.clone();
        background::spawn(async move {
            let result = result.await.unwrap_or_else(|_| Err(NONE.to_owned()));
            this.ended(&arguments, completion, result.and_then(|it| (this.0.check)(it, called)));
        })
        .detach();
        joined
    }

    /// Delivers a result. If no connection waits for it, it is kept for the next attempt.
    fn ended(&self, arguments: &Q, call: Completion<Result<T, String>>, result: Result<T, String>) {
        self.with(|calls| {
            let failed = result.is_err();
            if call.complete(result, environment::now()) || failed {
                calls.remove(arguments);
            }
        });
    }

    fn with<R>(&self, change: impl FnOnce(&mut Calls<Q, T>) -> R) -> R {
        let calls = self.0.calls.get_or_make(Mutex::default);
        change(&mut lock(&calls))
    }
}

/// Runs the function on a new thread for each call. It may block there.
pub(crate) fn on_thread<Q: Send + 'static, A: Send + 'static>(
    name: &'static str,
    function: impl Fn(Q) -> Result<A, String> + Send + Sync + 'static,
) -> Arc<Function<Q, A>> {
    let function = Arc::new(function);
    Arc::new(move |arguments, answer: Answer<A>| {
        let function = Arc::clone(&function);
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(|| function(arguments)));
            answer.send(result.unwrap_or_else(|_| Err("panicked".to_owned())));
        };
        // If no thread can be started, the answer is dropped, which reports an error.
        let _ = std::thread::Builder::new().name(name.into()).spawn(work);
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn call_that_panics_is_not_awaited_by_later_connections() {
        let is_repeated = AtomicBool::new(false);
        let function = move |(), answer: Answer<u32>| {
            assert!(is_repeated.swap(true, Ordering::Relaxed), "the first call panics");
            answer.send(Ok(7));
        };
        let callback = Callback::new("credentials", Arc::new(function), |number, _| Ok(number));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let get = || runtime.block_on(callback.result((), |_| true, CONNECTING));
        assert!(catch_unwind(AssertUnwindSafe(get)).is_err());
        assert_eq!(get(), Ok(7));
    }

    #[tokio::test]
    async fn calls_with_other_arguments_are_separate() {
        let callback = Callback::new("address_map", on_thread("test", Ok), |number: u32, _| {
            if number == 0 { Err("returned 0".to_owned()) } else { Ok(number) }
        });
        let result = |number| callback.result(number, |_| true, CONNECTING);
        assert_eq!(tokio::join!(result(1), result(2)), (Ok(1), Ok(2)));
        let error = result(0).await.unwrap_err();
        assert_eq!(error.to_string(), "address_map returned 0");
    }
}
