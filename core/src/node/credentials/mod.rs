//! Credentials that change: who logs in is asked for at each connect, and again before it expires.

mod provider;
mod thread;

use std::fmt;
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use provider::{Granted, Provider};
pub(crate) use thread::OnThread;

/// What a server is told at login, and for how long that holds.
///
/// ```
/// use redlock::Credentials;
/// let token = Credentials::new("a token").user("app").lifetime(std::time::Duration::from_secs(900));
/// assert!(!format!("{token:?}").contains("a token"));
/// ```
#[derive(Clone)]
pub struct Credentials {
    /// `None`: the server's `default` user.
    pub(crate) username: Option<String>,
    /// Never shown.
    pub(crate) password: String,
    /// From the moment they were asked for; `None`: for as long as the connection.
    pub(crate) lifetime: Option<Duration>,
}

impl Credentials {
    /// A password for the server's `default` user, for as long as the connection.
    pub fn new(password: impl Into<String>) -> Self {
        Self { username: None, password: password.into(), lifetime: None }
    }

    /// For this user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.username = Some(name.into());
        self
    }

    /// For so long from the moment they were asked for, one second at least: before that the open connection logs in
    /// again.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// The rule that they break.
    fn check(&self) -> Result<(), &'static str> {
        if self.password.is_empty() {
            return Err("gave an empty password");
        }
        if self.username.as_deref() == Some("") {
            return Err("gave an empty user");
        }
        if self.lifetime.is_some_and(|lifetime| lifetime < Duration::from_secs(1)) {
            return Err("gave a lifetime of less than a second");
        }
        Ok(())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// To whoever asked; dropped, it says that there is none.
pub struct Answer(oneshot::Sender<Given>);

/// Credentials, or why there are none, in words that give no secret away.
type Given = Result<Credentials, String>;

impl Answer {
    /// An answer, and where it arrives.
    fn channel() -> (Self, oneshot::Receiver<Given>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Gives it.
    pub fn give(self, given: Given) {
        // Whoever asked may have gone.
        let _ = self.0.send(given);
    }
}

/// Whoever knows the credentials of the moment.
pub trait Ask: Send + Sync {
    /// Asks. It must not block: the program's own code runs elsewhere, and takes as long as it takes.
    fn ask(&self, answer: Answer);
}
