//! Defines credentials that change. They are requested at each connect and again before they expire.

mod provider;

use std::fmt;
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use provider::{Granted, OnThread, Provider};

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
    /// Creates an answer and its receiver.
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

/// Supplies the current credentials.
pub trait Ask: Send + Sync {
    /// Requests credentials. It must not block: the callback of the program runs elsewhere and may take any time.
    fn ask(&self, answer: Answer);
}
