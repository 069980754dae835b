//! A Redis server as a node: methods into commands, commands into the connection's queue.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::connection::{Command, Connection, Link, Purpose, Question, Target};
use super::reply::{self, Answer};
use super::script::{ACQUIRE, EXTEND, FORCE, INSPECT, RELEASE, SCRIPTS};
use super::{Ask, Claim, Extension, Fault, Fencing, Holder, Node, Reply, Vote, Watch};
use crate::background;
use crate::clock::Clock;
use crate::fence::SLACK;

pub(crate) struct RedisNode {
    url: String,
    queue: UnboundedSender<Command>,
    link: Arc<Link>,
    watch: Arc<Watch>,
    clock: Arc<dyn Clock>,
}

impl RedisNode {
    /// Starts the node's connection, which waits for the first command before it connects.
    pub(crate) fn new(target: Target, clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let (queue, commands) = unbounded_channel();
        let (url, link) = (target.url.clone(), Arc::new(Link::default()));
        let (time, told) = (Arc::clone(&clock), Arc::clone(&watch));
        let connection = Connection::new(target, time, told, Arc::clone(&link), commands);
        background::spawn(connection.run()).detach();
        Self { url, queue, link, watch, clock }
    }

    fn send<T: Send + 'static>(
        &self,
        command: &Cmd,
        echo: &str,
        purpose: Purpose,
        patience: Duration,
        read: fn(&Value) -> Answer<T>,
    ) -> Reply<T> {
        let (answer, reply) = oneshot::channel();
        let question = Question {
            bytes: command.get_packed_command(),
            echo: Some(echo.into()),
            purpose,
            patience,
        };
        // A send can fail only when the connection is gone for good; the dropped answer says so below.
        let _ = self.queue.send(Command::new(question, answer));
        Box::pin(async move {
            match reply.await {
                Ok(answer) => answer.and_then(|value| read(&value)),
                Err(_) => Err(Fault::new("the client is closed")),
            }
        })
    }
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
        let mut command = SCRIPTS[ACQUIRE].on(&lock_keys(claim, ask));
        command.arg(&*claim.token).arg(millis(ask.ttl));
        match ask.fencing {
            Fencing::Off => &mut command,
            Fencing::Propose(fence) => command.arg(&[fence, 0]).arg(micros(SLACK)),
            Fencing::AtLeast(fence) => command.arg(&[0, fence]).arg(micros(SLACK)),
        };
        let purpose = if ask.first { Purpose::FirstVote } else { Purpose::Question };
        self.send(&command, &claim.token, purpose, ask.patience, reply::vote)
    }

    fn extend(&self, claim: &Claim, ask: Ask) -> Reply<Extension> {
        let mut command = SCRIPTS[EXTEND].on(&lock_keys(claim, ask));
        command.arg(&*claim.token).arg(millis(ask.ttl));
        if let Fencing::AtLeast(fence) = ask.fencing {
            command.arg(fence);
        }
        let purpose = Purpose::Question;
        self.send(&command, &claim.token, purpose, ask.patience, reply::extension)
    }

    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        let mut command = SCRIPTS[RELEASE].on(&claim.keys);
        command.arg(&*claim.token);
        let purpose = Purpose::Delete { until: self.clock.now() + owed };
        self.send(&command, &claim.token, purpose, PATIENCE, reply::released)
    }

    fn inspect(&self, key: &str) -> Reply<Option<Holder>> {
        let command = SCRIPTS[INSPECT].on(&[key.to_owned()]);
        self.send(&command, key, Purpose::Question, PATIENCE, reply::holder)
    }

    fn force_release(&self, keys: &[String]) -> Reply<bool> {
        let command = SCRIPTS[FORCE].on(keys);
        let reply = self.send(&command, &keys[0], Purpose::Question, PATIENCE, reply::count);
        // The server does not push to the connection that deleted; what is asked now goes behind the delete.
        self.watch.changed_keys(keys);
        reply
    }
}
