//! Renews a login with a limited lifetime over the open connection.
//!
//! It requests credentials from the provider as at each connect, and sends `AUTH` in order with the other commands. It
//! does not affect tracking. A failed renewal is repeated until the server closes the connection.

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{Value, cmd};
use tokio::sync::oneshot;

use crate::node::Fault;
use crate::node::credentials::{Credentials, Granted, Provider};
use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::commands::scripts::plain;
use crate::node::redis::login::login_refused;
use crate::node::redis::protocol::{InFlight, SILENCE};
use crate::runtime::environment::sleep;

/// The time limit for credentials in the background. It is longer than during a connect, where a connection waits.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// The minimum and maximum delay after a failure.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Requests credentials, logs in, and waits until the next renewal.
pub(crate) struct LoginRenewal {
    provider: Provider,
    /// Whether the server supports `HELLO`, which requires a user name.
    hello: bool,
    /// The lifetime of the current login.
    lifetime: Duration,
    stage: RenewalStage,
    /// Whether the last attempt failed and was logged.
    failed: bool,
}

/// A login that renews another one.
pub(crate) struct Login {
    pub(crate) command: InFlight,
    pub(crate) credentials: Credentials,
}

enum RenewalStage {
    /// Waits, then requests credentials.
    Asking(BoxFuture<'static, Result<Granted, Fault>>),
    /// Waits for the reply to the login.
    Confirming(Granted, oneshot::Receiver<Result<Value, Fault>>),
}

impl LoginRenewal {
    /// Creates the renewal of a login. `None` if it lasts as long as the connection.
    pub(crate) fn for_login(provider: Provider, granted: &Granted, hello: bool) -> Option<Self> {
        let lifetime = granted.credentials.lifetime?;
        let stage = RenewalStage::asking(&provider, until_renewal(granted));
        Some(Self { provider, hello, lifetime, stage, failed: false })
    }

    /// Whether a failure is the first in a row.
    pub(crate) fn is_news(&mut self) -> bool {
        !std::mem::replace(&mut self.failed, true)
    }

    /// Returns the next login to send, or an error. Dropping the future does not lose its progress.
    pub(crate) async fn next(&mut self) -> Result<Login, Fault> {
        loop {
            match &mut self.stage {
                RenewalStage::Asking(asking) => match asking.await {
                    Ok(granted) => {
                        let (reply_to, replied) = oneshot::channel();
                        let credentials = granted.credentials.clone();
                        let command = InFlight::new(auth(&credentials, self.hello), reply_to);
                        self.stage = RenewalStage::Confirming(granted, replied);
                        return Ok(Login { command, credentials });
                    }
                    Err(fault) => return Err(self.again(fault)),
                },
                RenewalStage::Confirming(granted, replied) => match replied.await {
                    Ok(Ok(Value::Okay)) => {
                        self.failed = false;
                        self.lifetime = granted.credentials.lifetime.unwrap_or(Duration::MAX);
                        self.stage = RenewalStage::asking(&self.provider, until_renewal(granted));
                    }
                    Ok(Ok(Value::ServerError(error))) => {
                        return Err(self.again(login_refused(&error)));
                    }
                    Ok(Err(fault)) => return Err(self.again(fault)),
                    _ => {
                        return Err(self.again(Fault::new("the server did not reply to the login")));
                    }
                },
            }
        }
    }

    /// Schedules another attempt. The delay is short relative to the lifetime, so that several attempts are possible.
    fn again(&mut self, fault: Fault) -> Fault {
        let (least, most) = RETRY_DELAYS;
        self.stage = RenewalStage::asking(&self.provider, (self.lifetime / 20).clamp(least, most));
        fault
    }
}

impl RenewalStage {
    /// Requests credentials after a pause.
    fn asking(provider: &Provider, pause: Duration) -> Self {
        let provider = provider.clone();
        Self::Asking(Box::pin(async move {
            sleep(pause).await;
            provider.get(BACKGROUND_TIMEOUT).await
        }))
    }
}

/// Returns the time until a quarter of the lifetime is left.
fn until_renewal(granted: &Granted) -> Duration {
    granted.left().map_or(Duration::MAX, |left| left.mul_f64(0.75))
}

/// Builds the login command. The renewal evaluates its reply.
///
/// A server without `HELLO` may accept only a password. Both forms log in as `default` if there is no user name.
fn auth(credentials: &Credentials, hello: bool) -> Command {
    let mut auth = cmd("AUTH");
    auth.arg(credentials.username.as_deref().or(hello.then_some("default")));
    auth.arg(&credentials.password);
    Command { timeout: SILENCE, ..plain(&auth, Purpose::Plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_has_the_form_of_the_login() {
        for (user, hello, words) in [
            (None, true, &["AUTH", "default", "secret"][..]),
            (None, false, &["AUTH", "secret"]),
            (Some("me"), true, &["AUTH", "me", "secret"]),
            (Some("me"), false, &["AUTH", "me", "secret"]),
        ] {
            let mut credentials = Credentials::new("secret");
            credentials.username = user.map(Into::into);
            let sent = auth(&credentials, hello);
            assert!(sent.words().eq(words.iter().map(|word| word.as_bytes())), "{words:?}");
        }
    }
}
