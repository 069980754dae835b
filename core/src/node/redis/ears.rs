//! A second connection, over which a server says what it says by itself.
//!
//! The first one then is answers alone, which whoever asks may read. It is opened where a thread wants to, and not before: a
//! client whose threads never wait needs none. The server sends there what it would have told the first
//! (`CLIENT TRACKING ... REDIRECT`); when either ends, so does the other.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::commands::plain;
use super::endpoint::Endpoint;
use super::fallback::{Without, connect};
use super::handshake::too_long;
use super::hearer::Hearer;
use super::in_flight::{InFlight, Purpose};
use super::pipeline::{SILENCE, TICK};
use super::session::LARGEST;
use super::steps::named;
use super::talk::Talk;
use crate::node::Fault;

/// A server that is silent for so long is asked whether it is there.
const QUIET: Duration = Duration::from_secs(1);
/// One that gave us no second connection is asked for it again after so long.
const AGAIN: Duration = Duration::from_secs(30);

/// So much is read at once, at least: with as much room as was left over, a push in three came in two pieces, and a waiter
/// was told of it a turn later.
const ROOM: usize = 1024;

/// The second connection, as far as there is one.
pub(super) struct Ears {
    /// With the login of the first one.
    endpoint: Endpoint,
    /// Which was renewed since.
    renewed: bool,
    hearer: Arc<Hearer>,
    stage: Stage,
}

type Opened = Result<(Talk, i64), Fault>;

enum Stage {
    /// Nobody wanted it yet.
    Unwanted,
    /// It is opened, or will be once a pause is over.
    Opening(Pin<Box<dyn Future<Output = Opened> + Send>>),
    /// The server was told to use it.
    Asked(Box<Line>, oneshot::Receiver<Result<Value, Fault>>),
    /// It listens.
    Listening(Box<Line>),
}

/// What happened.
pub(super) enum Heard {
    /// It is open; this tells the server to use it.
    Opened(InFlight),
    /// The server uses it from now on.
    Listening,
    /// The server said something.
    Said,
    /// It is of no use any more, and with it the first one.
    Broken(Fault),
}

/// An open one.
struct Line {
    talk: Talk,
    /// For how long nothing was heard.
    silent: Duration,
    /// It was asked whether it is there.
    asked: bool,
}

impl Ears {
    /// None yet.
    pub(super) fn none(endpoint: Endpoint, hearer: Arc<Hearer>) -> Self {
        Self { endpoint, renewed: false, hearer, stage: Stage::Unwanted }
    }

    /// Somebody wants it.
    pub(super) fn want(&mut self) {
        if matches!(self.stage, Stage::Unwanted) {
            self.open_after(Duration::ZERO);
        }
    }

    fn open_after(&mut self, pause: Duration) {
        let (endpoint, anew) = (self.endpoint.clone(), self.renewed);
        self.stage = Stage::Opening(Box::pin(async move {
            tokio::time::sleep(pause).await;
            listen(&endpoint, anew).await
        }));
    }

    /// What happens next. Dropped before its end it goes on where it was.
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            match &mut self.stage {
                Stage::Unwanted => pending().await,
                Stage::Opening(opening) => match opening.await {
                    Ok((talk, id)) => {
                        let (answer, answered) = oneshot::channel();
                        let line = Line { talk, silent: Duration::ZERO, asked: false };
                        self.stage = Stage::Asked(Box::new(line), answered);
                        return Heard::Opened(InFlight::new(redirect(id), answer));
                    }
                    // Without it all goes as it went before: threads have the task read for them.
                    Err(_) => self.open_after(AGAIN),
                },
                Stage::Asked(line, answered) => tokio::select! {
                    answer = answered => match (answer, std::mem::replace(&mut self.stage, Stage::Unwanted)) {
                        (Ok(Ok(Value::Okay)), Stage::Asked(line, _)) => {
                            self.stage = Stage::Listening(line);
                            return Heard::Listening;
                        }
                        _ => self.open_after(AGAIN),
                    },
                    heard = line.hear(&self.hearer) => return heard,
                },
                Stage::Listening(line) => return line.hear(&self.hearer).await,
            }
        }
    }

    /// A while has passed in which the first one was in use; a fault where this one was silent for too long.
    pub(super) async fn tick(&mut self) -> Option<Fault> {
        let Stage::Listening(line) = &mut self.stage else { return None };
        line.silent += TICK;
        if line.silent >= QUIET && !line.asked {
            (line.asked, line.silent) = (true, Duration::ZERO);
            return line.tell(&cmd("PING").get_packed_command()).await.err();
        }
        (line.asked && line.silent > SILENCE + TICK)
            .then(|| Fault::new("the server did not reply on the connection for notifications"))
    }

    /// The same login as the first one's.
    pub(super) async fn log_in(&mut self, auth: &[u8]) {
        self.renewed = true;
        if let Stage::Asked(line, _) | Stage::Listening(line) = &mut self.stage {
            // If it fails, the next read says so.
            let _ = line.tell(auth).await;
        }
    }
}

impl Line {
    async fn tell(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let stream = &mut self.talk.stream;
        let told = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match tokio::time::timeout(SILENCE, told).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::new(format!("the connection broke: {error}")).by(&error)),
            Err(_) => {
                Err(Fault::new("the server does not read from the connection for notifications"))
            }
        }
    }

    /// Passes on what is said.
    async fn hear(&mut self, hearer: &Hearer) -> Heard {
        let reader = &mut self.talk.reader;
        // Something may have come right behind the greeting.
        if reader.unread.is_empty() || reader.partial() > 0 {
            reader.unread.reserve(ROOM);
            match self.talk.stream.read_buf(&mut reader.unread).await {
                Ok(0) => return Heard::Broken(Fault::new("the server closed the connection")),
                Ok(count) => reader.came(count),
                Err(error) => {
                    let text = format!("the connection broke: {error}");
                    return Heard::Broken(Fault::new(text).by(&error));
                }
            }
        }
        (self.silent, self.asked) = (Duration::ZERO, false);
        loop {
            match reader.next() {
                Ok(None) if reader.partial() > LARGEST => {
                    let text = "the server sent a notification that is too large for a lock's key";
                    return Heard::Broken(Fault::new(text));
                }
                Ok(None) => break,
                Ok(Some(Value::Push { kind, data })) => {
                    if let Some(fault) = hearer.pushed(&kind, &data) {
                        return Heard::Broken(fault);
                    }
                }
                // That it is there.
                Ok(Some(_)) => {}
                Err(_) => {
                    return Heard::Broken(Fault::new(
                        "the server's data is not in the Redis protocol",
                    ));
                }
            }
        }
        // All connections share one thread: whoever talks a lot lets the others go on.
        yield_now().await;
        Heard::Said
    }
}

/// A second connection, which only listens; with what the server calls it. As the first one logged in, but `anew` where that
/// does not last.
async fn listen(endpoint: &Endpoint, anew: bool) -> Opened {
    let within = endpoint.connect_timeout;
    let opened = tokio::time::timeout(within, async {
        let granted = if anew { endpoint.granted().await? } else { None };
        let login = granted.as_ref().map(|granted| endpoint.with_login(&granted.credentials));
        let endpoint = login.as_ref().unwrap_or(endpoint);
        let (mut talk, hello) = connect(endpoint, &mut Without::default()).await?;
        let id = hello
            .flatten()
            .ok_or_else(|| Fault::new("the server does not report connection IDs"))?;
        // For whoever looks at it there; what it hears is of any database.
        let select = cmd("SELECT").arg(endpoint.db).clone();
        talk.ask(&[named(endpoint), select]).await?;
        Ok((talk, id))
    });
    opened.await.unwrap_or_else(|_| Err(too_long(within)))
}

/// Has the server tell what it tells the connection on which this is asked to another one, of this id.
fn redirect(id: i64) -> super::in_flight::Command {
    let mut tracking = cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("REDIRECT").arg(id).arg("OPTOUT").arg("NOLOOP");
    plain(&tracking, Purpose::Plain)
}
