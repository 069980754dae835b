//! Calls of a function that the program passed as an option: `credentials`, `address_map`.
//!
//! No thread of this library waits for the function, which may take any time. All connections that need the result of
//! the same call share it. While a call hangs, it is not repeated.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::error::seconds;
use crate::node::Fault;
use crate::node::shared_request::{SharedRequest, SharedRequests};
use crate::runtime::{background, environment};
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
    /// The calls under way, and results for which no connection waited any more.
    calls: SharedRequests<Q, Result<T, String>>,
}

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
        let (check, calls) = (Box::new(check), SharedRequests::new());
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
            let call = self.join_or_call(arguments, usable);
            call.result().await.unwrap_or_else(|| Err(NONE.to_owned()))
        };
        let late = |_| Err(format!("did not return within {}", seconds(within)));
        let result = environment::timeout(within, call).await.unwrap_or_else(late);
        result.map_err(|why| Fault::new(format!("{} {why}", spelled(self.0.option))))
    }

    /// Returns the call under way, or one with a result that can still be used. Otherwise calls the function. The
    /// background thread awaits the result, even if no connection waits for it any more.
    fn join_or_call(
        &self,
        arguments: Q,
        usable: impl Fn(&T) -> bool,
    ) -> SharedRequest<Result<T, String>> {
        let called = environment::now();
        let is_good = |result: &Result<T, String>| result.as_ref().is_ok_and(&usable);
        let (call, begun) = self.0.calls.join_or_begin(&arguments, called, is_good);
        let Some(completion) = begun else { return call };
        let (sender, result) = oneshot::channel();
        // If it panics, later connections do not wait for its result.
        (self.0.function)(arguments.clone(), Answer(sender));
        let this = self.clone();
        background::spawn(async move {
            let result = result.await.unwrap_or_else(|_| Err(NONE.to_owned()));
            let checked = result.and_then(|it| (this.0.check)(it, called));
            let (is_ok, now) = (checked.is_ok(), environment::now());
            this.0.calls.deliver_result(&arguments, completion, checked, is_ok, now);
        })
        .detach();
        call
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
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{Mutex, OnceLock};

    use super::*;
    use crate::runtime::lock;

    /// A call that begins while the function runs, here from inside it, does not run it again.
    #[tokio::test]
    async fn connection_that_begins_during_a_call_joins_it() {
        let place = Arc::new(OnceLock::<Callback<(), u32, u32>>::new());
        let (calls, joined) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None)));
        let (known, counted, join) = (Arc::clone(&place), Arc::clone(&calls), Arc::clone(&joined));
        let function = move |(), answer: Answer<u32>| {
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                *lock(&join) = known.get().map(|it| it.join_or_call((), |_| true));
            }
            answer.send(Ok(7));
        };
        let made = Callback::new("credentials", Arc::new(function), |number, _| Ok(number));
        let callback = place.get_or_init(|| made);
        assert_eq!(callback.result((), |_| true, CONNECTING).await, Ok(7));
        let joined = lock(&joined).take().unwrap();
        assert_eq!(joined.result().await, Some(Ok(7)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

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
