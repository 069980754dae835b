//! Credentials that change. They are requested at each connect and again before they expire.
//!
//! A [`Provider`] remembers the passwords that it has returned, and removes them from texts.
//!
//! The callback of a Rust program runs on a separate thread, which may block.

use std::any::type_name;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;

use crate::clock::Instant;
use crate::node::Fault;
use crate::node::callback::{self, Callback, Function};
use crate::runtime::environment;
use crate::runtime::{PerProcess, lock};

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

/// Requests the current credentials.
pub type Ask = Function<(), Credentials>;

/// The number of recent secrets that are removed from a server's error text, which may repeat a replaced one.
const MAX_RECENT_SECRETS: usize = 32;

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
        let passed = environment::now().since(self.asked);
        self.credentials.lifetime.map(|lifetime| lifetime.saturating_sub(passed))
    }
}

/// Requests credentials for a client. Its nodes share it.
#[derive(Clone)]
pub(crate) struct Provider {
    callback: Callback<(), Credentials, Granted>,
    recent: Recent,
}

/// Recent passwords, which no text may show. A thread of the parent may hold the lock during a fork, so a forked child
/// has its own.
#[derive(Clone)]
struct Recent(Arc<PerProcess<Mutex<VecDeque<String>>>>);

impl Provider {
    pub(crate) fn new(source: Arc<Ask>) -> Self {
        let recent = Recent(Arc::new(PerProcess::new()));
        let known = recent.clone();
        let check = move |credentials: Credentials, asked| {
            credentials.check()?;
            known.add(&credentials.password);
            Ok(Granted { credentials, asked })
        };
        Self { callback: Callback::new("credentials", source, check), recent }
    }

    /// Returns the current credentials within this time.
    pub(crate) async fn get(&self, within: Duration) -> Result<Granted, Fault> {
        let lives = |granted: &Granted| granted.left() != Some(Duration::ZERO);
        self.callback.result((), lives, within).await
    }

    /// Removes all recent secrets from a server's error text.
    pub(crate) fn redact(&self, words: &str) -> String {
        self.recent.with(|recent| {
            // The longest first, because it may contain others.
            let mut recent: Vec<&String> = recent.iter().collect();
            recent.sort_by_key(|secret| Reverse(secret.len()));
            let without = |words: String, secret: &String| words.replace(secret.as_str(), "***");
            recent.into_iter().fold(words.to_owned(), without)
        })
    }
}

impl Recent {
    /// Called before the secret is sent anywhere.
    fn add(&self, secret: &str) {
        self.with(|recent| {
            recent.retain(|known| known != secret);
            recent.push_front(secret.to_owned());
            recent.truncate(MAX_RECENT_SECRETS);
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut VecDeque<String>) -> T) -> T {
        let recent = self.0.get_or_make(Mutex::default);
        change(&mut lock(&recent))
    }
}

/// Requests credentials from a callback that runs on a new thread for each request.
pub(crate) fn on_thread<F, Fut, E>(callback: F) -> Arc<Ask>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credentials, E>>,
{
    callback::on_thread("redlock-credentials", move |()| run(&callback))
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
    use super::*;
    use crate::node::callback::Answer;

    #[test]
    fn no_part_of_a_secret_that_contains_a_later_one_is_shown() {
        let provider = Provider::new(Arc::new(|(), _: Answer<Credentials>| {}));
        ["token-7f3a", "token"].into_iter().for_each(|secret| provider.recent.add(secret));
        assert_eq!(provider.redact("got token-7f3a"), "got ***");
    }
}
