//! The task of one open connection: the work that no caller waits for.
//!
//! It reads the replies that no thread reads, keeps time, logs in again, and detects a dead connection. All connections
//! of a process share one thread, so nothing here may take long at once.

pub(crate) mod context;
mod login_renewal;
mod notifications;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::task::yield_now;

use super::Connection;
use super::session::{PANICKED, Session, SessionState, Usage};
use crate::clock::jittered;
use crate::node::Fault;
use crate::node::redis::commands::capabilities::{Capabilities, Feature};
use crate::node::redis::connect::{Discovery, Opening, greet};
use crate::node::redis::connection::task::context::Context;
use crate::node::redis::io::step::Step;
use crate::node::redis::login::BatchConnection;
use crate::node::redis::protocol::Target;
use crate::node::redis::protocol::{InFlight, Protocol, PushHandler, TICK};
use crate::node::redis::sentinel::{FoundPrimary, News};
use crate::runtime::environment::{Interval, race, sleep};
use login_renewal::{Login, LoginRenewal};
use notifications::{Event, Notifications, Silence};

/// How a connection ended.
pub(crate) enum SessionEnd {
    /// The client is gone and every command has its reply.
    Idle,
    /// It cannot be used any more.
    Broken(Fault, Usage),
}

/// The interval of the work that is not urgent, because it only repeats something.
const CHORES: Duration = Duration::from_secs(1);
/// The pause before the first check for more features, and the longest one. It doubles with each check.
const CHECK_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The task of one open connection.
pub(crate) struct ConnectionTask<'a> {
    connection: &'a Connection,
    /// Receives the backlog at the end.
    context: &'a mut Context,
    /// The server that was found.
    found: FoundPrimary,
    /// Reports that it is another one now.
    news: News,
    /// Logs in again if the login expires.
    renewal: Option<LoginRenewal>,
    /// The connection for notifications, if the server sends any.
    notifications: Option<Notifications>,
    /// Detects that a new connection would have more features.
    features: Option<BoxFuture<'static, ()>>,
    /// The number of commands at the last tick.
    sent: u64,
}

impl<'a> ConnectionTask<'a> {
    /// Creates the task of a connection that is ready for locks. It opens the one for notifications after `delay`.
    /// Takes the backlog last, because the next connection needs it after a panic.
    pub(crate) fn new(
        connection: &'a Connection,
        context: &'a mut Context,
        Opening { greeting, killed, found }: Opening,
        delay: Duration,
    ) -> (Self, Session) {
        let login = greeting.login.as_ref().map(|(_, granted)| &granted.credentials);
        let mut endpoint =
            login.map_or_else(|| found.endpoint.clone(), |login| found.endpoint.with_login(login));
        // A name may have several addresses, and its lookup takes time.
        endpoint.known = greeting.connection.socket.peer();
        let hello =
            greeting.supported.has(Feature::Hello) && endpoint.parameters.protocol != Some(2);
        let renewal = greeting
            .login
            .and_then(|(provider, granted)| LoginRenewal::for_login(provider, &granted, hello));
        let BatchConnection { socket, parser, round_trip, .. } = greeting.connection;
        let news = context.resolver.news();
        let delay = if context.ends_at_redirects() { notifications::RETRY } else { delay };
        let supported = greeting.supported;
        let features = supported
            .doubtful
            .then(|| improves(context.target.clone(), found.clone(), supported).boxed());
        let now = context.clock.now();
        let pushes = Arc::new(PushHandler::new(Arc::clone(&context.watch), now));
        let handler = (Arc::clone(&pushes), Arc::clone(&context.clock));
        let probe = supported.probe();
        let open = || Notifications::open(endpoint, greeting.run_id, probe, handler, delay);
        let notifications = supported.has(Feature::Tracking).then(open);
        let backlog = context.backlog.take().expect("no other connection has the backlog");
        let protocol = Protocol::new(
            context.target.clone(),
            parser,
            round_trip.unwrap_or_default(),
            backlog.pending,
            supported,
            (!killed).then_some(now),
            pushes,
        );
        let session = Session::new(protocol, backlog.commands, Arc::clone(&context.clock), socket);
        let task =
            Self { connection, context, found, news, renewal, notifications, features, sent: 0 };
        (task, session)
    }

    /// Serves until the client is gone and every command has its reply, or the connection breaks. `waiting` are the
    /// commands that waited for the connection. Also after a panic, the commands without a reply fail.
    pub(crate) async fn run(mut self, session: Session, waiting: Vec<InFlight>) -> SessionEnd {
        let served = AssertUnwindSafe(self.serve(session, waiting)).catch_unwind().await;
        let session = self.connection.use_by_task(Option::take).await;
        let usage = session.as_ref().map(Session::usage).unwrap_or_default();
        self.connection.end_role();
        let fault = match &served {
            Ok(served) => served.as_ref().err().cloned(),
            Err(_) => Some(Fault::new(PANICKED)),
        };
        self.context.backlog = session.map(|session| session.into_backlog(fault.as_ref()));
        if let Err(panic) = served {
            resume_unwind(panic);
        }
        fault.map_or(SessionEnd::Idle, |fault| SessionEnd::Broken(fault, usage))
    }

    /// Lets threads use the connection, after the pending deletes and the commands that waited for it.
    async fn open_session(&mut self, session: Session, mut waiting: Vec<InFlight>) {
        let (shared, mut session) = (self.notifications.is_none(), Some(session));
        let begin = |place: &mut Option<Session>| {
            if let Some(session) = session.take() {
                let session = place.insert(session);
                session.send_waiting(std::mem::take(&mut waiting));
                if shared {
                    session.share();
                }
            }
        };
        self.connection.use_by_task(begin).await;
    }

    /// Serves until the end. Returns an error if the connection breaks.
    async fn serve(&mut self, session: Session, waiting: Vec<InFlight>) -> Result<(), Fault> {
        self.open_session(session, waiting).await;
        let connection = self.connection;
        let (mut tick, mut chores) = (Interval::new(TICK), Interval::new(CHORES));
        // Not immediately, because the handshake has just read the same.
        chores.reset();
        loop {
            let state = self.write().await?;
            if state.idle {
                return Ok(());
            }
            let notifications = self.notifications.as_mut().map(Notifications::next);
            let renewal = self.renewal.as_mut().map(LoginRenewal::next);
            let served = race! {
                () = connection.task_woken() => Ok(()),
                much = read_as_task(connection) => {
                    if much {
                        // All connections share one thread, and the others must have their turn.
                        yield_now().await;
                    }
                    Ok(())
                }
                Some(event) = OptionFuture::from(notifications) => self.notified(event).await,
                Some(login) = OptionFuture::from(renewal), if !state.gone => {
                    self.log_in(login).await;
                    Ok(())
                }
                // Not at the next failure: the previous primary still replies for a while.
                fault = self.news.until_moved(&self.found) => Err(fault),
                Some(()) = OptionFuture::from(self.features.as_mut()), if !state.gone => {
                    self.features = None;
                    connection.use_session(Session::leave).await;
                    Ok(())
                }
                () = chores.tick(), if state.pending_deletes => {
                    connection.use_session(Session::retry_deletes).await;
                    Ok(())
                }
                // While callers wait, too: they rely on the connection for notifications, which is probed then.
                () = tick.tick(), if state.open || connection.is_in_use() || self.context.watch.has_waiters() => {
                    self.tick().await
                }
            };
            served?;
        }
    }

    /// Writes the submitted commands. Returns the state of the connection, or why it cannot be used any more.
    async fn write(&mut self) -> Result<SessionState, Fault> {
        let connection = self.connection;
        let written = connection.use_session(|session| {
            connection.write_by_task(session);
            session.why_broken().map_or_else(|| Ok(session.state()), Err)
        });
        match written.await {
            Some(Ok(state)) if state.left && !state.idle => {
                Err(Fault::new("replaced by a connection with more features"))
            }
            Some(Ok(state)) => Ok(state),
            // Reported as a panic of this task, regardless of the thread.
            Some(Err((_, Some(panic)))) => resume_unwind(panic),
            Some(Err((fault, None))) => Err(fault),
            None => Err(Fault::new(PANICKED)),
        }
    }
}

/// Events other than commands.
impl ConnectionTask<'_> {
    /// Handles an event of the connection for notifications.
    async fn notified(&mut self, event: Event) -> Result<(), Fault> {
        match event {
            Event::Opened(redirect) => {
                self.context.redirects += 1;
                self.send(*redirect).await;
            }
            Event::Redirected => {
                self.context.redirected();
                self.connection.use_session(Session::share).await;
            }
            Event::Failed(fault) => self.context.not_redirected(&fault),
            Event::Received { was_silent } if was_silent => self.context.set_silent(false),
            Event::Received { .. } => {}
            Event::Broken(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Sends a command of the connection itself.
    async fn send(&mut self, command: InFlight) {
        let mut command = Some(command);
        self.connection
            .use_session(|session| command.take().map(|command| session.send(command)))
            .await;
    }

    /// Sends a renewed login, or logs that there is none.
    async fn log_in(&mut self, login: Result<Login, Fault>) {
        match login {
            Ok(login) => {
                if let Some(notifications) = &mut self.notifications {
                    notifications.log_in(&login);
                }
                self.send(login.command).await;
            }
            Err(fault) => {
                if self.renewal.as_mut().is_some_and(LoginRenewal::is_news) {
                    self.context.warn_of_login(fault);
                }
            }
        }
    }

    /// Checks for silence. Called regularly while the connection is in use.
    async fn tick(&mut self) -> Result<(), Fault> {
        let (connection, before) = (self.connection, &mut self.sent);
        let tick = |session: &mut Session| {
            let (limit, silent, sent) = (session.silence_limit(), session.tick(), session.sent());
            let more = std::mem::replace(before, sent) != sent;
            if session.is_silent() {
                // The thread that reads may be suspended, or its loop blocked. Its silence is not the server's.
                connection.end_role();
            } else if !more && !session.is_open() {
                connection.unused();
            }
            silent.map_or(Ok(limit), Err)
        };
        // Without a session, the next write ends the task.
        let Some(limit) = connection.use_session(tick).await.transpose()? else { return Ok(()) };
        let Some(notifications) = &mut self.notifications else { return Ok(()) };
        if notifications.tick(limit)? == Silence::Long {
            self.context.set_silent(true);
        }
        Ok(())
    }
}

/// Reads the replies that no thread reads. Returns true if it read much.
async fn read_as_task(connection: &Connection) -> bool {
    poll_fn(|cx| {
        let polled = connection.try_use(|session| {
            let session = session.as_mut().filter(|_| !connection.is_read_by_thread());
            session.map(|session| session.poll(cx))
        });
        // A thread that uses the session or reads calls afterwards.
        polled.flatten().unwrap_or(Poll::Pending)
    })
    .await
}

/// Checks on a second connection whether the server supports more than the open one uses: performs whole handshakes
/// until one has more features. Errors do not matter, because the open connection works.
///
/// Servers and proxies that close a connection during its handshake may do so for any reason. The client then omits the
/// commands that it had sent. A server's uptime may be unreadable for a while. Without this check, the node could not
/// vote or receive notifications for as long as the connection lives.
async fn improves(target: Target, found: FoundPrimary, supported: Capabilities) {
    let (mut pause, longest) = CHECK_PAUSE;
    loop {
        // At least half of the pause is random, so that many clients do not connect at the same time.
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(longest);
        let attempt = greet(&target, &found, Discovery::Full);
        if let Ok(greeting) = Step::default().within(found.endpoint.connect_timeout, attempt).await
            && greeting.supported.improves(&supported)
        {
            return;
        }
    }
}
