//! The second connection of a node, over which the server sends its notifications.
//!
//! The first connection then carries only replies, so that any waiting thread may read it. The second one is opened as
//! soon as the first one is, and the server redirects the notifications to it (`CLIENT TRACKING ... REDIRECT`). When
//! one of the two ends, the other is closed too. Without a second connection, the notifications arrive on the first
//! one, which only the background thread reads then.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use redis::{Value, cmd};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::clock::{Clock, Instant};
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::commands::reply::{self, field, text};
use crate::node::redis::commands::scripts::plain;
use crate::node::redis::connection::task::login_renewal::Login;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::io::step::Step;
use crate::node::redis::login::BatchConnection;
use crate::node::redis::login::connect;
use crate::node::redis::protocol::{InFlight, LARGEST, PushHandler, SILENCE, TICK};
use crate::runtime::environment::{self, Sleep, race};

/// After this time without bytes, the next use of the first connection probes the second one. Otherwise a server or a
/// NAT could drop it as idle.
const QUIET: Duration = Duration::from_secs(1);
/// The number of round trips that the reply to a probe may take on a slow network.
const SILENT_ROUND_TRIPS: u32 = 3;
/// The pause after an attempt to open the connection has failed.
pub(super) const RETRY: Duration = Duration::from_secs(30);

/// The second connection, or the attempt to open it.
pub(crate) struct Notifications {
    /// The address of the server, and the last login of the first connection.
    endpoint: Endpoint,
    /// The run ID of the server, if it reports one.
    run_id: Option<String>,
    /// The command that checks the connection.
    probe: &'static [u8],
    /// Handles the notifications, with the time of the client.
    handler: (Arc<PushHandler>, Arc<dyn Clock>),
    state: ListenerState,
}

/// An open connection, and its ID at the server.
type OpenedListener = Result<(BatchConnection, i64), Fault>;
/// The reply to the command that redirects the notifications.
type Redirected = oneshot::Receiver<Result<Value, Fault>>;

enum ListenerState {
    /// Before the next attempt.
    Pausing(Sleep),
    Opening(BoxFuture<'static, OpenedListener>),
    /// With the receiver until the notifications arrive here.
    Open(Box<PushLine>, Option<Redirected>),
}

/// What happened to the second connection.
pub(crate) enum Event {
    /// It is open. The first connection must send this command, which redirects the notifications.
    Opened(Box<InFlight>),
    /// The first connection carries only replies from now on.
    Redirected,
    /// It cannot be opened or used. The next attempt follows after a pause.
    Failed(Fault),
    /// The server sent something, which was handled. `was_silent` tells whether [`Silence::Long`] was reported.
    Received { was_silent: bool },
    /// It ended, so the first connection must end too.
    Broken(Fault),
}

/// How long a server has been silent on the second connection.
#[derive(Debug, PartialEq)]
pub(crate) enum Silence {
    /// Not longer than before.
    Short,
    /// Longer than a working server usually is. Reported once. Callers that wait cannot rely on notifications now.
    Long,
    /// Longer than any caller allowed it to be.
    TooLong,
}

/// An open connection.
struct PushLine {
    connection: BatchConnection,
    /// What the server does not accept yet. The next bytes must not follow the first part of a command.
    unsent: BytesMut,
    /// When bytes arrived last.
    heard: Instant,
    /// The probe without a reply, if there is one.
    probe: Option<LineProbe>,
}

/// A probe without a reply.
#[derive(Default)]
struct LineProbe {
    /// How long it has had no reply. It is counted in ticks, so that a pause of this process does not count as the
    /// server's.
    waited: Duration,
    /// The longest silence that a command on the first connection allowed the server since.
    limit: Duration,
    /// Whether [`Silence::Long`] was reported.
    is_long: bool,
}

impl LineProbe {
    /// Counts a tick, on a network whose probes take as long as `slow`.
    fn tick(&mut self, limit: Duration, slow: Duration) -> Silence {
        self.waited += TICK;
        // The first connection may have its replies already, because another thread reads it.
        self.limit = self.limit.max(limit).max(slow);
        if self.waited > self.limit + TICK {
            return Silence::TooLong;
        }
        let is_long = self.waited > SILENCE.max(slow) + TICK;
        if is_long && !std::mem::replace(&mut self.is_long, true) {
            Silence::Long
        } else {
            Silence::Short
        }
    }
}

impl Notifications {
    /// Starts to open the connection after a pause.
    pub(crate) fn open(
        endpoint: Endpoint,
        run_id: Option<String>,
        probe: &'static [u8],
        handler: (Arc<PushHandler>, Arc<dyn Clock>),
        pause: Duration,
    ) -> Self {
        let state = ListenerState::Pausing(environment::sleep(pause));
        Self { endpoint, run_id, probe, handler, state }
    }

    /// Starts an attempt with the current login.
    fn start_opening(&mut self) {
        let (endpoint, run_id) = (self.endpoint.clone(), self.run_id.clone());
        self.state = ListenerState::Opening(Box::pin(open(endpoint, run_id)));
    }

    /// Waits for the next event. Dropping the future loses no progress.
    pub(crate) async fn next(&mut self) -> Event {
        let failed = loop {
            match &mut self.state {
                ListenerState::Pausing(pause) => {
                    pause.await;
                    self.start_opening();
                }
                ListenerState::Opening(opening) => match opening.await {
                    Ok((connection, id)) => {
                        let (reply_to, redirected) = oneshot::channel();
                        let (unsent, heard) = (BytesMut::new(), environment::now());
                        let line = PushLine { connection, unsent, heard, probe: None };
                        self.state = ListenerState::Open(Box::new(line), Some(redirected));
                        return Event::Opened(Box::new(InFlight::new(redirect(id), reply_to)));
                    }
                    Err(fault) => break fault,
                },
                ListenerState::Open(line, waiting) => {
                    let Some(redirected) = waiting else {
                        return line.receive(&self.handler).await;
                    };
                    let reply = race! {
                        reply = redirected => reply,
                        event = line.receive(&self.handler) => return event,
                    };
                    match reply {
                        Ok(Ok(Value::Okay)) => {
                            *waiting = None;
                            return Event::Redirected;
                        }
                        Ok(Ok(value)) => break reply::unexpected(&value),
                        Ok(Err(fault)) => break fault,
                        Err(_) => break Fault::new("the connection ended"),
                    }
                }
            }
        };
        // The background thread continues to read the first connection.
        self.state = ListenerState::Pausing(environment::sleep(RETRY));
        Event::Failed(failed)
    }

    /// Called regularly while the first connection is in use. Returns how long the server has been silent, and an error
    /// if that is too long: for the `limit` of the first connection, or for as long as a slow network needs.
    pub(crate) fn tick(&mut self, limit: Duration) -> Result<Silence, Fault> {
        let ListenerState::Open(line, None) = &mut self.state else { return Ok(Silence::Short) };
        let slow = line.connection.round_trip.unwrap_or_default() * SILENT_ROUND_TRIPS;
        let Some(probe) = &mut line.probe else {
            if environment::now().since(line.heard) < QUIET {
                return Ok(Silence::Short);
            }
            line.probe = Some(LineProbe::default());
            line.unsent.extend_from_slice(self.probe);
            return Ok(Silence::Short);
        };
        match probe.tick(limit, slow) {
            Silence::TooLong => {
                Err(Fault::new("the server did not reply on the connection for notifications"))
            }
            silence => Ok(silence),
        }
    }

    /// Logs in again, as the first connection does.
    pub(crate) fn log_in(&mut self, login: &Login) {
        self.endpoint = self.endpoint.with_login(&login.credentials);
        match &mut self.state {
            ListenerState::Pausing(_) => {}
            // The previous login would end soon, and the connection with it.
            ListenerState::Opening(_) => self.start_opening(),
            ListenerState::Open(line, _) => {
                line.unsent.extend_from_slice(&login.command.command.bytes);
            }
        }
    }
}

impl PushLine {
    /// Waits for bytes while it writes those that are unsent, and handles the notifications in them.
    async fn receive(&mut self, handler: &(Arc<PushHandler>, Arc<dyn Clock>)) -> Event {
        let (handler, clock) = handler;
        let parser = &mut self.connection.parser;
        // Bytes may have arrived directly after the handshake.
        if parser.unread.is_empty() || parser.partial() > 0 {
            match self.connection.socket.exchange(&mut self.unsent, &mut parser.unread).await {
                Ok(0) => return Event::Broken(Fault::new("the server closed the connection")),
                Ok(count) => parser.count_read(count),
                Err(error) => return Event::Broken(Fault::broken(&error)),
            }
        }
        self.heard = environment::now();
        let was_silent = self.probe.take().is_some_and(|probe| probe.is_long);
        loop {
            match parser.next() {
                Ok(None) if parser.partial() > LARGEST => {
                    let text = "the server sent a notification that is too large for a lock's key";
                    return Event::Broken(Fault::new(text));
                }
                Ok(None) => break,
                Ok(Some(Value::Push { kind, data })) => {
                    if let Some(fault) = handler.handle(&kind, &data, clock.now()) {
                        return Event::Broken(fault);
                    }
                }
                // The reply to `PING` or `AUTH`.
                Ok(Some(_)) => {}
                Err(_) => {
                    return Event::Broken(Fault::new(
                        "the server's data is not in the Redis protocol",
                    ));
                }
            }
        }
        // All connections share one thread, so a server that sends much must let the others proceed.
        yield_now().await;
        Event::Received { was_silent }
    }
}

/// Opens a connection.
async fn open(endpoint: Endpoint, run_id: Option<String>) -> OpenedListener {
    let attempt = async {
        let (mut connection, hello) =
            connect(&endpoint, &mut Capabilities::default(), false).await?;
        let id = hello
            .and_then(|hello| hello.id)
            .ok_or_else(|| Fault::new("the server does not report connection IDs"))?;
        // The user may lack the right to send commands that the first connection did not need.
        let mut commands = Vec::new();
        if endpoint.db != 0 {
            // Only for `CLIENT LIST`, because notifications are about every database.
            commands.push(cmd("SELECT").arg(endpoint.db).clone());
        }
        commands.push(cmd("CLIENT").arg("SETNAME").arg(&endpoint.client_name).clone());
        commands.extend(run_id.is_some().then(|| cmd("INFO").arg("server").clone()));
        let replies = connection.request(&commands).await?;
        let info = replies.last().map(text).unwrap_or_default();
        // Behind a proxy it may be another server, where another client has this ID.
        if field(&info, "run_id").is_some_and(|own| run_id.is_some_and(|first| first != own)) {
            return Err(Fault::new("the second connection leads to another server"));
        }
        Ok((connection, id))
    };
    Step::default().within(endpoint.connect_timeout, attempt).await
}

/// Redirects the notifications of the connection that sends this to the connection with this ID.
fn redirect(id: i64) -> Command {
    let mut tracking = cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("REDIRECT").arg(id).arg("OPTOUT").arg("NOLOOP");
    plain(&tracking, Purpose::Plain)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::SystemClock;
    use crate::node::Watch;
    use crate::node::credentials::Credentials;

    /// Returns the password that the next connection sends: `HELLO 3 AUTH user password`.
    async fn password_at(server: &TcpListener) -> String {
        let (stream, _) = server.accept().await.unwrap();
        let (mut lines, mut last) = (BufReader::new(stream).lines(), String::new());
        // The number of the five words, then each word after its length.
        for _ in 0..11 {
            last = lines.next_line().await.unwrap().unwrap();
        }
        last
    }

    #[tokio::test]
    async fn attempt_uses_the_last_login() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://app:first@{}", server.local_addr().unwrap());
        let clock = Arc::new(SystemClock);
        let pushes = PushHandler::new(Arc::new(Watch::new(Arc::default())), clock.now());
        let handler = (Arc::new(pushes), clock as Arc<dyn Clock>);
        let endpoint = Endpoint::parse(&url).unwrap();
        let mut notifications = Notifications::open(endpoint, None, b"", handler, Duration::ZERO);
        // During the pause, and during the attempt that follows.
        for password in ["second", "third"] {
            let command = InFlight::without_caller(redirect(0));
            let credentials = Credentials::new(password).user("app");
            notifications.log_in(&Login { command, credentials });
            tokio::select! {
                _ = notifications.next() => panic!("the server replies to none"),
                used = password_at(&server) => assert_eq!(used, password),
            }
        }
    }

    #[test]
    fn silence_is_limited_by_the_longest_timeout_since_the_probe() {
        let silent_after = |limits: &mut dyn Iterator<Item = Duration>| {
            let (mut probe, mut ticks) = (LineProbe::default(), 1);
            while probe.tick(limits.next().unwrap(), Duration::ZERO) != Silence::TooLong {
                ticks += 1;
            }
            TICK * ticks
        };
        let longer = SILENCE * 4;
        let margin = TICK * 2;
        assert_eq!(silent_after(&mut std::iter::repeat(SILENCE)), SILENCE + margin);
        assert_eq!(silent_after(&mut std::iter::repeat(longer)), longer + margin);
        // The command with the longer timeout has its reply, or is sent later.
        let once = |at: usize| (0..).map(move |tick| if tick == at { longer } else { SILENCE });
        for at in [0, 2] {
            assert_eq!(silent_after(&mut once(at)), longer + margin, "{at}");
        }
    }

    #[test]
    fn long_silence_is_reported_once_and_long_before_the_limit() {
        let ticks = |slow: Duration| {
            let mut probe = LineProbe::default();
            let silences = (1..).map(|tick| (tick, probe.tick(SILENCE * 4, slow)));
            let silences = silences.take_while(|(_, silence)| *silence != Silence::TooLong);
            let long = silences.filter(|(_, silence)| *silence == Silence::Long);
            long.map(|(tick, _)| TICK * tick).collect::<Vec<_>>()
        };
        assert_eq!(ticks(Duration::ZERO), [SILENCE + TICK * 2]);
        assert_eq!(ticks(SILENCE * 2), [SILENCE * 2 + TICK * 2]);
    }
}
