//! The task of one open connection: the work that no caller waits for.
//!
//! It reads the replies that no thread reads, keeps time, logs in again, and detects a dead connection. All connections of
//! a process share one thread, so nothing here may take long at once.

mod events;
pub(super) mod features;
mod notifications;
mod renewal;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Connection;
use super::session::{PANICKED, Session, SessionState};
use crate::node::Fault;
use crate::node::redis::connect::Opening;
use crate::node::redis::connect::batches::BatchConnection;
use crate::node::redis::node_task::context::Context;
use crate::node::redis::protocol::{Decoder, Encoder, InFlight, PushHandler, TICK};
use crate::node::redis::sentinel::{Found, News};
use features::FeatureCheck;
use notifications::Notifications;
use renewal::Renewal;

/// How a connection ended.
pub(crate) enum End {
    /// The client is gone and every command has its reply.
    Idle,
    /// It cannot be used any more. `idle` means that new commands wait for the next connection.
    Broken { fault: Fault, idle: bool },
}

/// The interval of the work that is not urgent, because it only repeats something.
const CHORES: Duration = Duration::from_secs(1);

/// The task of one open connection.
pub(crate) struct ConnectionTask<'a> {
    connection: &'a Connection,
    /// Receives the backlog at the end.
    context: &'a mut Context,
    /// The server that was found.
    found: Found,
    /// Reports that it is another one now.
    news: News,
    /// Logs in again if the login expires.
    renewal: Option<Renewal>,
    /// The connection for notifications, if the server sends any.
    notifications: Option<Notifications>,
    /// Detects that a new connection would have more features.
    features: FeatureCheck,
    /// The number of commands at the last tick.
    sent: u64,
}

impl<'a> ConnectionTask<'a> {
    /// Creates the task of a connection that is ready for locks. Takes the backlog last, because the next connection
    /// needs it after a panic.
    pub(crate) fn new(
        connection: &'a Connection,
        context: &'a mut Context,
        Opening { greeting, killed, found }: Opening,
    ) -> Result<(Self, Session), Fault> {
        let login = greeting.login.as_ref().map(|(_, granted)| &granted.credentials);
        let endpoint =
            login.map_or_else(|| found.endpoint.clone(), |login| found.endpoint.with_login(login));
        let renewal =
            greeting.login.and_then(|(provider, granted)| Renewal::of(provider, &granted));
        let BatchConnection { socket, parser, round_trip, .. } = greeting.connection;
        let (news, pause) = (context.resolver.news(), context.ends_at_redirects());
        let features = FeatureCheck::new(&context.target, &found, greeting.without);
        let now = context.clock.now();
        let pushes = Arc::new(PushHandler::new(Arc::clone(&context.watch), now));
        let handler = (Arc::clone(&pushes), Arc::clone(&context.clock));
        let open = || Notifications::open(endpoint, greeting.run_id, handler, pause);
        let notifications = (!greeting.without.tracking).then(open);
        let Some(backlog) = context.backlog.take() else { return Err(Fault::new(PANICKED)) };
        let encoder = Encoder::new(
            &context.target,
            backlog.unsent_votes,
            (greeting.deletes_by, greeting.without),
            Arc::clone(&context.link),
            Arc::clone(&pushes),
        );
        let decoder = Decoder::new(
            context.target.clone(),
            (parser, round_trip.unwrap_or_default()),
            backlog.pending,
            (!killed).then_some(now),
            pushes,
        );
        let session =
            Session::new(encoder, decoder, backlog.commands, Arc::clone(&context.clock), socket);
        let task =
            Self { connection, context, found, news, renewal, notifications, features, sent: 0 };
        Ok((task, session))
    }

    /// Serves until the client is gone and every command has its reply, or the connection breaks. `waiting` are the
    /// commands that waited for the connection. Also after a panic, the commands without a reply fail.
    pub(crate) async fn run(mut self, session: Session, waiting: Vec<InFlight>) -> End {
        let served = AssertUnwindSafe(self.serve(session, waiting)).catch_unwind().await;
        let session = self.connection.use_by_task(Option::take).await;
        let idle = session.as_ref().is_some_and(Session::is_paused);
        self.connection.end_role();
        let fault = match &served {
            Ok(served) => served.as_ref().err().cloned(),
            Err(_) => Some(Fault::new(PANICKED)),
        };
        self.context.backlog = session.map(|session| session.end(fault.as_ref()));
        if let Err(panic) = served {
            resume_unwind(panic);
        }
        fault.map_or(End::Idle, |fault| End::Broken { fault, idle })
    }

    /// Lets threads use the connection, after the pending deletes and the commands that waited for it.
    async fn begin(&mut self, session: Session, mut waiting: Vec<InFlight>) {
        let (shared, mut session) = (self.notifications.is_none(), Some(session));
        let begin = |place: &mut Option<Session>| {
            if let Some(session) = session.take() {
                let session = place.insert(session);
                session.begin(std::mem::take(&mut waiting));
                if shared {
                    session.share();
                }
            }
        };
        self.connection.use_by_task(begin).await;
    }

    /// Serves until the end. Returns an error if the connection breaks.
    async fn serve(&mut self, session: Session, waiting: Vec<InFlight>) -> Result<(), Fault> {
        self.begin(session, waiting).await;
        let connection = self.connection;
        let (mut tick, mut chores) = (every(TICK), every(CHORES));
        // Not immediately, because the handshake has just read the same.
        chores.reset();
        loop {
            let state = self.write().await?;
            if state.idle {
                return Ok(());
            }
            let served = tokio::select! {
                // In random order: a server that sends without a pause must not delay commands or the client's end.
                () = connection.called() => Ok(()),
                much = read(connection) => {
                    if much {
                        // All connections share one thread, and the others must have their turn.
                        yield_now().await;
                    }
                    Ok(())
                }
                event = Notifications::next(&mut self.notifications) => self.notified(event).await,
                login = Renewal::next(&mut self.renewal), if !state.gone => {
                    self.log_in(login).await;
                    Ok(())
                }
                // Not at the next failure: the previous primary still replies for a while.
                fault = self.news.left(&self.found) => Err(fault),
                () = self.features.succeeds(), if !state.gone => {
                    connection.use_session(Session::leave).await;
                    Ok(())
                }
                _ = chores.tick(), if state.pending_deletes => {
                    connection.use_session(Session::retry_deletes).await;
                    Ok(())
                }
                _ = tick.tick(), if state.open || connection.is_in_use() => self.tick().await,
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

/// Reads the replies that no thread reads. Returns true if it read much.
async fn read(connection: &Connection) -> bool {
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

/// Returns a timer that skips ticks while this thread is busy.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
