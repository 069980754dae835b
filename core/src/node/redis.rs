//! A Redis server as a node: methods into commands, commands into the connection's queue.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redis::{Cmd, Value, cmd};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::address::Server;
use super::connection::{Command, Connection, Expects, Link, Purpose, Question, Target};
use super::reply::{self, Answer};
use super::script::{ACQUIRE, EXTEND, FORCE, INSPECT, RELEASE, SCRIPTS};
use super::{Ask, Claim, Extension, Fault, Fencing, Holder, Node, Reply, Vote, Watch};
use crate::background;
use crate::clock::Clock;
use crate::fence::SLACK;

pub(crate) struct RedisNode {
    url: String,
    server: Arc<Server>,
    queue: UnboundedSender<Command>,
    link: Arc<Link>,
    clock: Arc<dyn Clock>,
}

impl RedisNode {
    /// Starts the node's connection, which waits for the first command before it connects.
    pub(crate) fn new(target: Target, clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let (queue, commands) = unbounded_channel();
        let (url, link) = (target.url.clone(), Arc::new(Link::default()));
        let server = Arc::new(target.server.clone());
        let time = Arc::clone(&clock);
        let connection = Connection::new(target, time, watch, Arc::clone(&link), commands);
        background::spawn(connection.run()).detach();
        Self { url, server, queue, link, clock }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: Question,
        read: fn(&Value) -> Answer<T>,
    ) -> Reply<T> {
        let answer = send(&self.queue, question);
        let server = Arc::clone(&self.server);
        Box::pin(async move {
            answer.await.and_then(|value| read(&value)).map_err(|fault| fault.hushed(&server))
        })
    }
}

type Queue = UnboundedSender<Command>;

/// Sent at the call; the future is the answer.
fn send(
    queue: &Queue,
    question: Question,
) -> impl Future<Output = Result<Value, Fault>> + Send + 'static + use<> {
    let (answer, reply) = oneshot::channel();
    // A send can fail only when the connection is gone for good; the dropped answer says so below.
    let _ = queue.send(Command::new(question, answer));
    let gone = "the client is closed, or the node's own task failed";
    reply.map(move |answer| answer.unwrap_or_else(|_| Err(Fault::new(gone))))
}

fn question(command: &Cmd, echo: &str, purpose: Purpose, patience: Duration) -> Question {
    let (bytes, expects) = (command.get_packed_command().into(), Expects::Echo(echo.into()));
    Question { bytes, expects, purpose, patience, untracked: false }
}

/// One free key without fencing needs no script: a `SET NX`, and the read that tells who owns it now. The read also
/// has the key tracked, which it does only after the write. Of a foreign value as much is read as tells that it is.
fn attempt(claim: &Claim, ask: Ask) -> Question {
    let key = &claim.keys[0];
    let room = 2 * key.len() + claim.token.len() + 120;
    let (mut set, mut get) = (Cmd::with_capacity(6, room), Cmd::with_capacity(4, room));
    set.arg("SET").arg(key).arg(&*claim.token).arg("NX").arg("PX").arg(millis(ask.ttl));
    get.arg("GETRANGE").arg(key).arg(0).arg(claim.token.len());
    let mut bytes = Vec::with_capacity(room);
    set.write_packed_command(&mut bytes);
    get.write_packed_command(&mut bytes);
    Question {
        bytes: bytes.into(),
        expects: Expects::Owner,
        purpose: vote(claim, ask, false),
        patience: ask.patience,
        untracked: false,
    }
}

/// All keys or none, whoever has them; with fencing, and with a word on who is in the way.
fn acquire_script(claim: &Claim, ask: Ask, sent: bool) -> Question {
    let mut command = SCRIPTS[ACQUIRE].on(&lock_keys(claim, ask));
    command.arg(&*claim.token).arg(millis(ask.ttl));
    match ask.fencing {
        Fencing::Off => &mut command,
        Fencing::Propose(fence) => command.arg(&[fence, 0]).arg(micros(SLACK)),
        Fencing::AtLeast(fence) => command.arg(&[0, fence]).arg(micros(SLACK)),
    };
    question(&command, &claim.token, vote(claim, ask, sent), ask.patience)
}

fn vote(claim: &Claim, ask: Ask, sent: bool) -> Purpose {
    let token = Arc::clone(&claim.token);
    if ask.first { Purpose::FirstVote { token, sent } } else { Purpose::Heal(token) }
}

fn release_script(claim: &Claim, owed: Duration) -> Question {
    let mut command = SCRIPTS[RELEASE].on(&claim.keys);
    command.arg(&*claim.token);
    let token = Arc::clone(&claim.token);
    question(&command, &claim.token, Purpose::Delete { token, owed, until: None }, PATIENCE)
}

/// Deletes the keys whoever has them, if the server's own clock has not passed this time.
fn force_script(keys: &[String], by: u64) -> Question {
    let mut command = SCRIPTS[FORCE].on(keys);
    command.arg(by);
    question(&command, &by.to_string(), Purpose::Question, PATIENCE)
}

/// The keys that a script needs: the locks', and with fencing the fences'.
fn lock_keys(claim: &Claim, ask: Ask) -> Cow<'_, [String]> {
    match ask.fencing {
        Fencing::Off => Cow::Borrowed(&claim.keys),
        _ => Cow::Owned([&*claim.keys, &*claim.fences].concat()),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// How long answers to questions without a deadline of their own are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

impl Node for RedisNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn pushes(&self) -> bool {
        self.link.pushes()
    }

    fn quarantine(&self) -> Option<Fault> {
        self.link.quarantine(self.clock.now())
    }

    fn acquire(&self, claim: &Claim, ask: Ask) -> Reply<Vote> {
        if !ask.likely || claim.keys.len() > 1 || ask.fencing != Fencing::Off {
            return self.ask(acquire_script(claim, ask, false), reply::vote);
        }
        let owner = send(&self.queue, attempt(claim, ask));
        let (queue, claim) = (self.queue.clone(), claim.clone());
        let server = Arc::clone(&self.server);
        Box::pin(async move {
            if matches!(owner.await?, Value::BulkString(token) if token == claim.token.as_bytes()) {
                return Ok(Vote::Granted(None));
            }
            // Whoever listens no longer asks no more: a delete that follows finds nothing behind it.
            let vote = send(&queue, acquire_script(&claim, ask, true)).await?;
            reply::vote(&vote).map_err(|fault| fault.hushed(&server))
        })
    }

    fn extend(&self, claim: &Claim, ask: Ask) -> Reply<Extension> {
        let mut command = SCRIPTS[EXTEND].on(&lock_keys(claim, ask));
        command.arg(&*claim.token).arg(millis(ask.ttl));
        if let Fencing::AtLeast(fence) = ask.fencing {
            command.arg(fence);
        }
        let purpose = Purpose::Question;
        self.ask(question(&command, &claim.token, purpose, ask.patience), reply::extension)
    }

    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        self.ask(release_script(claim, owed), reply::released)
    }

    fn release_late(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        let question = Question { untracked: true, ..release_script(claim, owed) };
        self.ask(question, reply::released)
    }

    fn inspect(&self, key: &str) -> Reply<Option<Holder>> {
        let command = SCRIPTS[INSPECT].on(&[key.to_owned()]);
        let question = question(&command, key, Purpose::Question, PATIENCE);
        self.ask(Question { untracked: true, ..question }, reply::holder)
    }

    /// In two questions: a delete that arrives late, when its caller was long told that it failed, could hit
    /// somebody's new lock. So the first asks for the server's time, and the second is good for a moment only.
    fn force_release(&self, keys: &[String]) -> Reply<bool> {
        let question = Question {
            bytes: cmd("TIME").get_packed_command().into(),
            expects: Expects::Time,
            purpose: Purpose::Force { keys: keys.into(), delete: force_script },
            patience: PATIENCE,
            untracked: false,
        };
        self.ask(question, reply::count)
    }

    fn settled(&self) -> Reply<()> {
        let question = Question {
            bytes: cmd("PING").get_packed_command().into(),
            expects: Expects::Anything,
            purpose: Purpose::Question,
            patience: PATIENCE,
            untracked: false,
        };
        // Whatever it says, also that PING is not allowed: it says so last.
        self.ask(question, |_| Ok(()))
    }
}
