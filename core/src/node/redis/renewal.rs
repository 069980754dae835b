//! A login that does not last: the open connection logs in again before it ends.
//!
//! Whoever says as whom is asked as at each connect, and the `AUTH` goes in order with all else. It leaves tracking as it is.
//! What fails is tried again until the server itself ends the connection.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redis::{Value, cmd};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::in_flight::{Command, Expects, InFlight, Purpose};
use super::login::refused;
use super::pipeline::SILENCE;
use crate::node::Fault;
use crate::node::credentials::{Credentials, Granted, Provider};

/// A question that is asked in the background may take longer than one that a connection waits for.
const PATIENCE: Duration = Duration::from_secs(30);
/// After a failure it is tried again this soon at least, and this late at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Asks, logs in, and waits until it is time again.
pub(super) struct Renewal {
    provider: Provider,
    /// How long the present login lasts.
    lifetime: Duration,
    stage: Stage,
    /// The last try failed, which was said.
    failed: bool,
}

enum Stage {
    /// First waits until it is time.
    Asking(Pin<Box<dyn Future<Output = Result<Granted, Fault>> + Send>>),
    /// The server was told.
    Confirming(Granted, oneshot::Receiver<Result<Value, Fault>>),
}

impl Renewal {
    /// Of a connection that has logged in with these; none where they last as long as it.
    pub(super) fn of(provider: Provider, granted: &Granted) -> Option<Self> {
        let lifetime = granted.credentials.lifetime?;
        let stage = Stage::asking(&provider, in_time(granted));
        Some(Self { provider, lifetime, stage, failed: false })
    }

    /// The next login to be sent, or why there is none. Dropped before its end it goes on where it was.
    pub(super) async fn next(this: &mut Option<Self>) -> Result<InFlight, Fault> {
        match this {
            Some(this) => this.step().await,
            None => std::future::pending().await,
        }
    }

    /// Whether a failure is the first of several.
    pub(super) fn is_news(&mut self) -> bool {
        !std::mem::replace(&mut self.failed, true)
    }

    /// Goes on to the next login, or to why there is none. Dropped, it goes on where it was.
    async fn step(&mut self) -> Result<InFlight, Fault> {
        loop {
            match &mut self.stage {
                Stage::Asking(asking) => match asking.await {
                    Ok(granted) => {
                        let (answer, answered) = oneshot::channel();
                        let login = InFlight::new(auth(&granted.credentials), answer);
                        self.stage = Stage::Confirming(granted, answered);
                        return Ok(login);
                    }
                    Err(fault) => return Err(self.again(fault)),
                },
                Stage::Confirming(granted, answered) => match answered.await {
                    Ok(Ok(Value::Okay)) => {
                        self.failed = false;
                        self.lifetime = granted.credentials.lifetime.unwrap_or(Duration::MAX);
                        self.stage = Stage::asking(&self.provider, in_time(granted));
                    }
                    Ok(Ok(Value::ServerError(error))) => return Err(self.again(refused(&error))),
                    Ok(Err(fault)) => return Err(self.again(fault)),
                    _ => return Err(self.again(Fault::new("the login was not answered"))),
                },
            }
        }
    }

    /// After a while, which is shorter the shorter the login lasts: there is time for several attempts.
    fn again(&mut self, fault: Fault) -> Fault {
        let (least, most) = AGAIN;
        self.stage = Stage::asking(&self.provider, (self.lifetime / 20).clamp(least, most));
        fault
    }
}

impl Stage {
    /// Asks the program after a pause, and gives it its time.
    fn asking(provider: &Provider, pause: Duration) -> Self {
        let provider = provider.clone();
        Self::Asking(Box::pin(async move {
            sleep(pause).await;
            provider.get(PATIENCE).await
        }))
    }
}

/// When a quarter of the lifetime is left.
fn in_time(granted: &Granted) -> Duration {
    granted.left().map_or(Duration::MAX, |left| left.mul_f64(0.75))
}

/// The login as a command; whatever it answers is looked at by who renews.
fn auth(credentials: &Credentials) -> Command {
    let mut auth = cmd("AUTH");
    // Named in any case: it may be another user than the one before.
    auth.arg(credentials.username.as_deref().unwrap_or("default")).arg(&credentials.password);
    Command {
        bytes: auth.get_packed_command(),
        expects: Expects::Anything,
        purpose: Purpose::Plain,
        timeout: SILENCE,
        untracked: false,
    }
}
