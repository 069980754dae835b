//! Credentials that change. They are requested at each connect and again before they expire, one request at a time. All
//! connections that need them share its result. While a callback hangs, it is not called again.
//!
//! The callback of a Rust program runs on a separate thread, which may block.

use std::any::type_name;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::clock::{Clock, Instant, SystemClock};
use crate::error::seconds;
use crate::node::Fault;
use crate::node::shared_request::{Completion, SharedRequest};
use crate::runtime::{PerProcess, background, lock};
use crate::text::spelled;

/// The login for a server, and its lifetime.
///
/// ```
/// use redlock::Credentials;
/// let token = Credentials::new("a token").user("app").lifetime(std::time::Duration::from_secs(900));
/// assert!(!format!("{token:?}").contains("a token"));
/// ```
#[derive(Clone)]
pub struct Credentials {
    /// `None` for the `default` user of the server.
    pub(crate) username: Option<String>,
    /// Never shown.
    pub(crate) password: String,
    /// Measured from the request. `None` for the duration of the connection.
    pub(crate) lifetime: Option<Duration>,
}

impl Credentials {
    /// Creates a login for the `default` user of the server. It lasts as long as the connection.
    pub fn new(password: impl Into<String>) -> Self {
        Self { username: None, password: password.into(), lifetime: None }
    }

    /// Sets the user name.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.username = Some(name.into());
        self
    }

    /// Sets the lifetime, measured from the request. It must be at least one second. Before it ends, the open
    /// connection logs in again.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Returns the rule that these credentials violate, if any.
    fn check(&self) -> Result<(), &'static str> {
        if self.password.is_empty() {
            return Err("returned an empty password");
        }
        if self.username.as_deref() == Some("") {
            return Err("returned an empty user");
        }
        if self.lifetime.is_some_and(|lifetime| lifetime < Duration::from_secs(1)) {
            return Err("returned a lifetime of less than a second");
        }
        Ok(())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Receives the credentials. Dropping it reports that there are none.
pub struct Answer(oneshot::Sender<Given>);

/// Credentials, or the reason why there are none, without secrets.
type Given = Result<Credentials, String>;

impl Answer {
    fn channel() -> (Self, oneshot::Receiver<Given>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Sends the credentials or the error.
    pub fn give(self, given: Given) {
        // The receiver may be gone.
        let _ = self.0.send(given);
    }
}

/// Requests the current credentials. It must not block: the callback of the program runs elsewhere and may take any
/// time.
pub type Ask = dyn Fn(Answer) + Send + Sync;

/// The number of recent secrets that are removed from a server's error text, which may repeat a replaced one.
const MAX_RECENT_SECRETS: usize = 32;

const NONE: &str = "returned nothing";

/// The result of a request.
type Outcome = Result<Granted, String>;

/// Credentials, and when they were requested.
#[derive(Clone)]
pub(crate) struct Granted {
    /// The login for the server.
    pub(crate) credentials: Credentials,
    /// When their lifetime began.
    pub(crate) asked: Instant,
}

impl Granted {
    /// Returns the remaining lifetime, or `None` for the duration of the connection.
    pub(crate) fn left(&self) -> Option<Duration> {
        let passed = SystemClock.now().since(self.asked);
        self.credentials.lifetime.map(|lifetime| lifetime.saturating_sub(passed))
    }
}

/// Requests credentials for a client. Its nodes share it.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Shared>);

struct Shared {
    source: Arc<Ask>,
    /// A forked child has neither the requests nor the threads of its parent.
    state: PerProcess<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The request under way, or one with a result for which no connection waited any more.
    request: Option<SharedRequest<Outcome>>,
    /// Recent passwords, which no text may show.
    recent: VecDeque<String>,
}

impl Provider {
    pub(crate) fn new(source: Arc<Ask>) -> Self {
        Self(Arc::new(Shared { source, state: PerProcess::new() }))
    }

    /// Returns the current credentials within this time.
    pub(crate) async fn get(&self, within: Duration) -> Result<Granted, Fault> {
        let option = spelled("credentials");
        let answered = tokio::time::timeout(within, self.ask()).await;
        let answer =
            answered.unwrap_or_else(|_| Err(format!("did not return within {}", seconds(within))));
        answer.map_err(|why| Fault::new(format!("{option} {why}")))
    }

    /// Removes all recent secrets from a server's error text.
    pub(crate) fn redact(&self, words: &str) -> String {
        self.with(|state| {
            // The longest first, because it may contain others.
            let mut recent: Vec<&String> = state.recent.iter().collect();
            recent.sort_by_key(|secret| Reverse(secret.len()));
            let without = |words: String, secret: &String| words.replace(secret.as_str(), "***");
            recent.into_iter().fold(words.to_owned(), without)
        })
    }

    /// Waits for the request under way, or sends a new one.
    async fn ask(&self) -> Outcome {
        let request = self.with(State::known).unwrap_or_else(|| self.begin());
        request.result().await.unwrap_or_else(|| Err(NONE.to_owned()))
    }

    /// Sends a request. The background thread awaits the result, even if no connection waits for it any more.
    fn begin(&self) -> SharedRequest<Outcome> {
        let asked = SystemClock.now();
        let (answer, answered) = Answer::channel();
        (self.0.source)(answer);
        // Only now. If the call panics, later connections must not wait for its result.
        let (request, completion) = SharedRequest::begin();
        let joined = request.clone();
        self.with(|state| state.request = Some(request));
        let this = self.clone();
        background::spawn(async move {
            let answer = answered.await.unwrap_or_else(|_| Err(NONE.to_owned()));
            let answer = answer.and_then(|credentials| {
                credentials.check()?;
                Ok(Granted { credentials, asked })
            });
            this.with(|state| state.answered(completion, answer));
        })
        .detach();
        joined
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let state = self.0.state.get_or_make(Mutex::default);
        let mut state: MutexGuard<'_, State> = lock(&state);
        change(&mut state)
    }
}

impl State {
    /// Returns the request that is under way, or one with a result that can still be used.
    fn known(&mut self) -> Option<SharedRequest<Outcome>> {
        let lives = |answer: &Outcome| {
            answer.as_ref().is_ok_and(|granted| granted.left() != Some(Duration::ZERO))
        };
        SharedRequest::join(&mut self.request, SystemClock.now(), lives)
    }

    /// Handles the result of a request. If no connection waits for it, it is kept for the next attempt.
    fn answered(&mut self, completion: Completion<Outcome>, answer: Outcome) {
        if let Ok(granted) = &answer {
            self.remember(&granted.credentials.password);
        }
        let failed = answer.is_err();
        if completion.complete(answer, SystemClock.now()) || failed {
            self.request = None;
        }
    }

    /// Called before the secret is sent anywhere.
    fn remember(&mut self, secret: &str) {
        self.recent.retain(|known| known != secret);
        self.recent.push_front(secret.to_owned());
        self.recent.truncate(MAX_RECENT_SECRETS);
    }
}

/// Requests credentials from a callback that runs on a new thread for each request.
pub(crate) fn on_thread<F, Fut, E>(callback: F) -> Arc<Ask>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credentials, E>>,
{
    let callback = Arc::new(callback);
    Arc::new(move |answer| {
        let callback = Arc::clone(&callback);
        let work = move || {
            let asked = catch_unwind(AssertUnwindSafe(|| run(&*callback)));
            answer.give(asked.unwrap_or_else(|_| Err("panicked".to_owned())));
        };
        // If no thread can be started, the answer is dropped, which reports an error.
        let _ = std::thread::Builder::new().name("redlock-credentials".into()).spawn(work);
    })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn no_part_of_a_secret_that_contains_a_later_one_is_shown() {
        let provider = Provider::new(Arc::new(|_: Answer| {}));
        provider.with(|state| ["token-7f3a", "token"].map(|secret| state.remember(secret)));
        assert_eq!(provider.redact("got token-7f3a"), "got ***");
    }

    #[test]
    fn request_that_panics_is_not_awaited_by_later_connections() {
        let is_repeated = AtomicBool::new(false);
        let provider = Provider::new(Arc::new(move |answer: Answer| {
            assert!(is_repeated.swap(true, Ordering::Relaxed), "the first call panics");
            answer.give(Ok(Credentials::new("secret")));
        }));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let get = || runtime.block_on(provider.get(Duration::from_secs(10))).map(|_| ());
        assert!(catch_unwind(AssertUnwindSafe(get)).is_err());
        assert_eq!(get(), Ok(()));
    }
}
