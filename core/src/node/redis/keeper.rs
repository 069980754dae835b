//! The task of one open connection: what nobody waits for, and what nobody else does.
//!
//! It reads the answers that no thread waits for by itself, keeps time, logs in again, and notices when the connection is dead.
//! All connections of a process share one thread, so nothing here may take long at once.

mod events;

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::batches::{BatchConnection, cannot_connect};
use super::context::{Backlog, Context, Opening};
use super::features::FeatureCheck;
use super::lane::Lane;
use super::link::VotesFrom;
use super::notifications::Notifications;
use super::protocol::{Decoder, Encoder, InFlight, PushHandler, TICK};
use super::renewal::Renewal;
use super::resolver::{Found, News};
use super::session::{PANICKED, Session, Standing};
use super::socket::Socket;
use crate::node::Fault;

/// How a session ended.
pub(super) enum End {
    /// The client is gone and everything was answered.
    Idle,
    /// The connection is of no use any more. `idle`: no command was sent any more, and commands wait for the next one.
    Broken { fault: Fault, idle: bool },
}

/// How often is done what nobody asks for.
/// No chore is urgent: each is a repetition.
const CHORES: Duration = Duration::from_secs(1);
/// The interval at which an unreadable age is requested again. The server's clock may have been corrected, or its user
/// may have the right by now.
const AGES: Duration = Duration::from_secs(5);

/// One open connection's task. Dropping it refuses what has no answer, unless it ended well.
pub(super) struct Keeper<'a> {
    lane: &'a Lane,
    /// Gets the backlog in the end.
    context: &'a mut Context,
    /// Where its server was found.
    found: Found,
    /// Word that it is another one now.
    news: News,
    /// Logs in again, where a login does not last.
    renewal: Option<Renewal>,
    /// The connection for notifications, if the server sends any.
    notifications: Option<Notifications>,
    /// Finds out whether a new connection would have more features.
    features: FeatureCheck,
    /// The request for the server's age, which could not be read yet. `None` once it is known, and without `INFO`.
    age: Option<AgeRequest>,
    /// Commands as they were counted at the last tick.
    asked: u64,
    /// Why it ended, for those whose answers never came; `None` in the end of which nothing is left.
    end: Option<Fault>,
}

impl<'a> Keeper<'a> {
    /// Lends a connection that is ready for locks; `waiting` was asked before.
    pub(super) fn begin(
        lane: &'a Lane,
        context: &'a mut Context,
        opening: Opening,
        waiting: &mut Vec<InFlight>,
    ) -> Result<Self, Fault> {
        let Opening { greeting, killed, found } = opening;
        let login = greeting.login.as_ref().map(|(_, granted)| &granted.credentials);
        let endpoint =
            login.map_or_else(|| found.endpoint.clone(), |login| found.endpoint.with_login(login));
        let renewal =
            greeting.login.and_then(|(provider, granted)| Renewal::of(provider, &granted));
        let BatchConnection { stream, parser, round_trip, .. } = greeting.connection;
        let socket = Socket::of(stream).map_err(|error| cannot_connect(&error))?;
        let Some(backlog) = context.backlog.take() else { return Err(Fault::new(PANICKED)) };
        let Backlog { commands, unsent_votes, pending } = backlog;
        let (news, waiting) = (context.resolver.news(), std::mem::take(waiting));
        let pause = context.ends_at_redirects();
        let features = FeatureCheck::new(&context.target, &found, greeting.without);
        let age = matches!(context.link.votes_from(), VotesFrom::Never) && !greeting.without.extras;
        let now = context.clock.now();
        let pushes = Arc::new(PushHandler::new(Arc::clone(&context.watch), now));
        let encoder = Encoder::new(
            &context.target,
            unsent_votes,
            (greeting.deletes_by, greeting.without),
            Arc::clone(&context.link),
            Arc::clone(&pushes),
        );
        let decoder = Decoder::new(
            context.target.clone(),
            (parser, round_trip.unwrap_or_default()),
            pending,
            (!killed).then_some(now),
            Arc::clone(&pushes),
        );
        let session = Session::new(encoder, decoder, commands, Arc::clone(&context.clock), socket);
        let handler = (pushes, Arc::clone(&context.clock));
        let open = || Notifications::open(endpoint, greeting.run_id, handler, pause);
        let notifications = greeting.pushes.then(open);
        // Until it is known better: this is what a panic leaves behind.
        let (age, asked, end) = (age.then_some(None), 0, Some(Fault::new(PANICKED)));
        let keeper =
            Self { lane, context, found, news, renewal, notifications, features, age, asked, end };
        lane.lend(session, |session| session.begin(waiting));
        if !greeting.pushes {
            lane.share();
        }
        Ok(keeper)
    }

    /// Serves until the client is gone and everything was answered, or the connection breaks.
    pub(super) async fn run(mut self) -> End {
        let kept = self.keep().await;
        // Not by force: another thread may be in the middle of it, and suspended.
        let session = self.visit(Option::take).await;
        let idle = session.as_ref().is_some_and(Session::is_paused);
        self.end = kept.err();
        let end = self.end.clone().map_or(End::Idle, |fault| End::Broken { fault, idle });
        self.take_home(session);
        end
    }

    /// Until the end: what is asked, what is answered, and the time in between. `Err`: why the connection broke.
    async fn keep(&mut self) -> Result<(), Fault> {
        let (mut tick, mut chores, mut ages) = (every(TICK), every(CHORES), every(AGES));
        // The first one in a while, not at once: the greeting has just asked all that they ask.
        chores.reset();
        ages.reset_after(CHORES);
        loop {
            let standing = self.attend().await?;
            if standing.idle {
                return Ok(());
            }
            let lane = self.lane;
            let heard = tokio::select! {
                // In no fixed order: a server that never stops talking must not keep commands, or the client's end,
                // waiting.
                () = lane.called() => Ok(()),
                much = read(lane), if standing.kept || !lane.is_threads() => {
                    if much {
                        // All connections share one thread: whoever talks a lot lets the others go on.
                        yield_now().await;
                    }
                    Ok(())
                }
                event = Notifications::next(&mut self.notifications) => self.notified(event).await,
                login = Renewal::next(&mut self.renewal), if !standing.gone => {
                    self.log_in(login).await;
                    Ok(())
                }
                // At once, not at the next failure: a primary that was left goes on answering for a while.
                fault = self.news.left(&self.found) => Err(fault),
                () = self.features.succeeds(), if !standing.gone => {
                    self.of_session(Session::leave).await;
                    Ok(())
                }
                about = next_age(&mut self.age) => {
                    self.read_age(&about);
                    Ok(())
                }
                _ = ages.tick(), if self.age.is_some() => {
                    self.request_age().await;
                    Ok(())
                }
                _ = chores.tick(), if standing.pending_deletes => {
                    self.of_session(Session::retry_deletes).await;
                    Ok(())
                }
                _ = tick.tick(), if standing.open || lane.is_watched() => self.tick().await,
            };
            heard?;
        }
    }

    /// Something to do with the session's place, as soon as no thread has it.
    async fn visit<T>(&mut self, mut act: impl FnMut(&mut Option<Session>) -> T) -> T {
        loop {
            if let Some(answer) = self.lane.visit(&mut act) {
                return answer;
            }
            self.lane.called().await;
        }
    }

    /// Something to do with the session, which is there for as long as this is.
    async fn of_session<T>(&mut self, mut act: impl FnMut(&mut Session) -> T) -> Option<T> {
        self.visit(|session| session.as_mut().map(&mut act)).await
    }

    /// Takes and writes what was asked; how the session stands, or why it is of no use any more.
    async fn attend(&mut self) -> Result<Standing, Fault> {
        let lane = self.lane;
        let attended = self.of_session(|session| {
            // Whoever asked here, or asked for help, does not read by itself.
            if session.write() || lane.helps() {
                session.keep();
            }
            if lane.is_threads() {
                session.leave_to_threads();
            }
            session.why_broken().map_or_else(|| Ok(session.standing()), Err)
        });
        match attended.await {
            Some(Ok(standing)) if standing.left && !standing.idle => {
                Err(Fault::new("replaced by a connection with more features"))
            }
            Some(Ok(standing)) => Ok(standing),
            // On whichever thread it was, it is told as this task's own.
            Some(Err((_, Some(panic)))) => std::panic::resume_unwind(panic),
            Some(Err((fault, None))) => Err(fault),
            None => Err(Fault::new(PANICKED)),
        }
    }

    /// The session's end.
    fn take_home(&mut self, session: Option<Session>) {
        self.lane.closed();
        if let Some(session) = session {
            let (backlog, waited_in) = session.end(self.end.as_ref());
            #[cfg(any(target_os = "linux", target_os = "android"))]
            waited_in.into_iter().for_each(|socket| self.lane.close_later(socket));
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            drop(waited_in);
            self.context.backlog = Some(backlog);
        }
    }
}

/// Reads what comes where no thread does, or needs to be helped.
async fn read(lane: &Lane) -> bool {
    poll_fn(|cx| {
        let polled = lane.visit(|session| session.as_mut().map(|session| session.poll(cx)));
        // Where another thread has it, that one calls afterwards.
        polled.flatten().unwrap_or(Poll::Pending)
    })
    .await
}

/// Also when it panics, or when its task is dropped: nobody waits for an answer that cannot come.
impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        if self.context.backlog.is_none() {
            let session = self.lane.take_back();
            self.take_home(session);
        }
    }
}

/// A timer that is late rather than often, where this thread was busy.
fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Receives the reply. `None` while no request is under way.
type AgeRequest = Option<oneshot::Receiver<Result<Value, Fault>>>;

/// Returns the next reply to a request for the server's age. Dropping the future loses no reply.
async fn next_age(request: &mut Option<AgeRequest>) -> Value {
    if let Some(Some(reply)) = request {
        let result = reply.await;
        *request = Some(None);
        if let Ok(Ok(value)) = result {
            return value;
        }
    }
    pending().await
}
