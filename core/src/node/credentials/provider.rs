//! Asking for credentials: one question at a time, of which all who need the answer have it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Ask, Credentials};
use crate::background;
use crate::clock::{Clock, Instant, SystemClock};
use crate::error::seconds;
use crate::node::Fault;
use crate::per_process::PerProcess;
use crate::spelling::spelled;

/// A question that has no answer after so long is asked again: whoever was asked hangs.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// An answer that came too late for who asked serves the next one, if that comes so soon.
const KEPT: Duration = Duration::from_secs(10);
/// So many secrets are taken out of a server's words: it may repeat one that was replaced since.
const RECENT: usize = 32;

const NONE: &str = "gave no answer";

type Answer = Result<Granted, String>;

/// Credentials, and when they were asked for.
#[derive(Clone)]
pub(crate) struct Granted {
    /// What the server is told.
    pub(crate) credentials: Credentials,
    /// Their lifetime begins here.
    pub(crate) asked: Instant,
}

impl Granted {
    /// How long they hold from now on; `None`: for as long as the connection.
    pub(crate) fn left(&self) -> Option<Duration> {
        let passed = SystemClock.now().since(self.asked);
        self.credentials.lifetime.map(|lifetime| lifetime.saturating_sub(passed))
    }
}

/// A client's way to credentials, shared by its nodes.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Shared>);

struct Shared {
    source: Arc<dyn Ask>,
    /// A forked child has neither the parent's questions nor its threads.
    state: PerProcess<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The one that is under way: who needs an answer meanwhile waits for this one's.
    question: Option<Question>,
    /// An answer that nobody waited for any more.
    kept: Option<(Granted, Instant)>,
    /// Passwords of late, which no text may show.
    recent: VecDeque<String>,
}

#[derive(Clone)]
struct Question {
    answer: Arc<watch::Sender<Option<Answer>>>,
    /// When: one that hangs is given up after a while.
    asked: Instant,
}

impl Provider {
    /// Nobody is asked yet.
    pub(crate) fn new(source: Arc<dyn Ask>) -> Self {
        Self(Arc::new(Shared { source, state: PerProcess::new() }))
    }

    /// The credentials of this moment, within this time.
    pub(crate) async fn get(&self, within: Duration) -> Result<Granted, Fault> {
        let option = spelled("credentials");
        let answered = tokio::time::timeout(within, self.ask()).await;
        let answer =
            answered.unwrap_or_else(|_| Err(format!("gave no answer within {}", seconds(within))));
        answer.map_err(|why| Fault::new(format!("{option} {why}")))
    }

    /// A server's words without any of the secrets that it was told.
    pub(crate) fn redact(&self, words: &str) -> String {
        self.with(|state| {
            let recent = state.recent.iter();
            recent.fold(words.to_owned(), |words, secret| words.replace(secret.as_str(), "***"))
        })
    }

    /// The answer to the question that is under way, or to a new one.
    async fn ask(&self) -> Answer {
        let mut answer = match self.with(State::known) {
            Known::Kept(granted) => return Ok(granted),
            Known::Asked(answer) => answer,
            Known::Nothing => self.begin(),
        };
        let answered = answer.wait_for(Option::is_some).await;
        // The sender goes without an answer only where its task was dropped.
        answered.map_or_else(
            |_| Err(NONE.to_owned()),
            |answer| answer.clone().unwrap_or_else(|| Err(NONE.to_owned())),
        )
    }

    /// Asks on the background thread, where the answer is awaited also when nobody waits for it any more.
    fn begin(&self) -> watch::Receiver<Option<Answer>> {
        let (sender, receiver) = watch::channel(None);
        let question = Question { answer: Arc::new(sender), asked: SystemClock.now() };
        self.with(|state| state.question = Some(question.clone()));
        let (answer, answered) = super::Answer::channel();
        self.0.source.ask(answer);
        let this = self.clone();
        background::spawn(async move {
            let answer = answered.await.unwrap_or_else(|_| Err(NONE.to_owned()));
            let answer = answer.and_then(|credentials| {
                credentials.check()?;
                Ok(Granted { credentials, asked: question.asked })
            });
            this.with(|state| state.answered(&question, answer));
        })
        .detach();
        receiver
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let state = self.0.state.get_or_make(Mutex::default);
        let mut state: MutexGuard<'_, State> = state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state)
    }
}

enum Known {
    /// An answer that came too late for who had asked.
    Kept(Granted),
    /// A question is under way.
    Asked(watch::Receiver<Option<Answer>>),
    /// Whoever wants to know must ask.
    Nothing,
}

impl State {
    /// What needs no new question. What was kept is given to one asker only: a second would have an older answer.
    fn known(&mut self) -> Known {
        let now = SystemClock.now();
        if let Some((kept, since)) = self.kept.take()
            && now.since(since) < KEPT
            && kept.left().is_none_or(|left| !left.is_zero())
        {
            return Known::Kept(kept);
        }
        match &self.question {
            Some(question) if now.since(question.asked) < GIVEN_UP => {
                Known::Asked(question.answer.subscribe())
            }
            _ => Known::Nothing,
        }
    }

    /// The question is over. An answer that nobody waited for is kept for a moment: the next attempt is near.
    fn answered(&mut self, question: &Question, answer: Answer) {
        if self.question.as_ref().is_some_and(|now| Arc::ptr_eq(&now.answer, &question.answer)) {
            self.question = None;
        }
        if let Ok(granted) = &answer {
            self.remember(&granted.credentials.password);
            if question.answer.receiver_count() == 0 {
                self.kept = Some((granted.clone(), SystemClock.now()));
            }
        }
        question.answer.send_replace(Some(answer));
    }

    /// Before it is sent anywhere.
    fn remember(&mut self, secret: &str) {
        self.recent.retain(|known| known != secret);
        self.recent.push_front(secret.to_owned());
        self.recent.truncate(RECENT);
    }
}
