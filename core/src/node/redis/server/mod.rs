//! Implements a Redis server as a node: methods become commands for the queue of its connection.

mod queue;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use redis::Value;
use tokio::sync::oneshot;

use crate::clock::{Clock, Instant};
use crate::drivers::RuntimeDriver;
use crate::error::seconds;
use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::commands::reply::{self, Answer};
use crate::node::redis::commands::scripts::{
    acquire, attempt, extend_script, inspect_script, list_script, ping, plain, probe, release,
};
use crate::node::redis::connect::questions;
use crate::node::redis::connection::task::context::Context;
use crate::node::redis::node_task::NodeTask;
use crate::node::redis::protocol::Target;
use crate::node::redis::state::link::Link;
use crate::node::redis::url::route::Route;
use crate::node::{
    Claim, Expect, Extension, Fault, Fencing, Form, Guarded, Holder, Node, Outage, ReleaseMode,
    Reply, ServerReplies, Vote, VoteParams, Watch, slot,
};
use crate::runtime::background;
use queue::Queue;

pub(super) use queue::{queue, send};

/// A server with one connection.
pub(crate) struct RedisNode {
    /// Without its password.
    url: String,
    /// Used for the passwords to redact, and for a diagnosis.
    pub(super) route: Arc<Route>,
    /// Ordered, so that a delete follows the vote that it undoes. Dropping it ends the node's task.
    pub(super) queue: Arc<Queue>,
    /// The state of the connection.
    pub(super) link: Arc<Link>,
    clock: Arc<dyn Clock>,
    /// Whether each vote must write.
    durable: bool,
}

impl RedisNode {
    /// Starts the node's task. It connects with the first command.
    pub(crate) fn new(
        target: Target,
        runtime: Option<Arc<RuntimeDriver>>,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
    ) -> Self {
        let (queue, commands, connection) = queue(runtime);
        let this = Self::leading_to(queue, &target, Arc::clone(&clock));
        let context = Context::new(target, clock, watch, Arc::clone(&this.link), commands);
        // The task outlives the node while deletes are pending.
        background::spawn(NodeTask::new(context, connection).run()).detach();
        this
    }

    /// Creates a node whose commands another task takes from its queue.
    pub(super) fn leading_to(queue: Arc<Queue>, target: &Target, clock: Arc<dyn Clock>) -> Self {
        let (url, route) = (target.url.clone(), Arc::new(target.route.clone()));
        let link = Arc::clone(&queue.link);
        let durable = !target.needs.durability.is_none();
        Self { url, route, queue, link, clock, durable }
    }

    pub(super) fn vote(
        &self,
        claim: &Claim,
        params: VoteParams,
    ) -> impl Future<Output = Result<Vote, Fault>> + Send + use<> {
        let one = claim.keys.len() == 1 && params.fencing == Fencing::Off;
        // The cheap pair of commands: most locks are free, and one key without fencing needs no script.
        let cheap = one && params.expect == Expect::Free && !claim.form.has_sides();
        let first = if cheap { attempt(claim, params) } else { acquire(claim, params, false) };
        let reply = send(&self.queue, first);
        let next = cheap.then(|| (Arc::clone(&self.queue), claim.clone()));
        let route = Arc::clone(&self.route);
        async move {
            let vote = async {
                let reply = reply.await?;
                let Some((queue, claim)) = next else { return reply::vote(&reply) };
                match &reply {
                    Value::BulkString(owner) if *owner == claim.token.as_bytes() => {
                        Ok(Vote::Granted(None))
                    }
                    // The connection sent the script instead, because its user may not read the owner otherwise.
                    Value::Array(_) if claim.form == Form::Keys => reply::vote(&reply),
                    // Not reached if the caller stopped waiting, so no command follows the delete.
                    _ => reply::vote(&send(&queue, acquire(&claim, params, true)).await?),
                }
            };
            vote.await.map_err(|fault| route.redact_fault(fault))
        }
    }

    /// Sends an extend. The guard is not considered yet.
    pub(super) fn extension(
        &self,
        claim: &Claim,
        params: VoteParams,
    ) -> impl Future<Output = Result<Extension, Fault>> + Send + use<> {
        let durable = self.durable && !params.check;
        self.send_command(extend_script(claim, params, durable), reply::extension)
    }

    /// Sends a command. The reply is parsed where it is awaited, to relieve the thread of all connections.
    fn send_command<T: Send + 'static>(
        &self,
        command: Command,
        read: fn(&Value) -> Answer<T>,
    ) -> impl Future<Output = Result<T, Fault>> + Send + use<T> {
        let reply = send(&self.queue, command);
        let route = Arc::clone(&self.route);
        async move {
            let read = reply.await.and_then(|value| read(&value));
            read.map_err(|fault| route.redact_fault(fault))
        }
    }
}

/// Checks an extension. `replaced` returns why it does not confirm the lease. It is called with the reply, because the
/// server may have been replaced after the command was queued.
pub(super) fn unless_replaced(
    extension: Extension,
    replaced: impl FnOnce() -> Option<Fault>,
) -> Result<Extension, Fault> {
    let fault = if extension == Extension::Extended { replaced() } else { None };
    fault.map_or(Ok(extension), Err)
}

/// The cursor of a listing's first page. As a reply, it means the last page.
const FIRST_PAGE: &[u8] = b"0";

/// The pattern of the keys that contain this text.
fn containing_pattern(text: &str) -> String {
    let mut pattern = String::from("*");
    for character in text.chars() {
        if "*?[]^-\\".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('*');
    pattern
}

impl Node for RedisNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn outage(&self) -> Option<&Outage> {
        Some(&self.link.outage)
    }

    fn pushes(&self, _key: &str) -> bool {
        self.link.pushes()
    }

    fn is_push_checked(&self, _key: &str) -> bool {
        self.link.is_push_checked()
    }

    fn is_connected(&self, _key: &str) -> bool {
        // A connection that was idle for long may be broken.
        self.link.is_open() && !self.link.is_idle(self.clock.now())
    }

    fn votes_soon(&self, key: &str, timeout: Duration) -> bool {
        self.is_connected(key) && !self.link.is_unconfirmed(timeout)
    }

    fn connecting(&self) -> Option<String> {
        (!self.is_connected("")).then(|| self.link.step())
    }

    fn connected(&self, key: &str) -> Reply<()> {
        if self.is_connected(key) {
            return Box::pin(std::future::ready(Ok(())));
        }
        // It gets its reply as soon as there is a connection, and is never sent.
        let read = redis::cmd("GETRANGE").arg(key).arg(0).arg(0).clone();
        Box::pin(self.send_command(plain(&read, Purpose::Ready), |_| Ok(())))
    }

    fn guarded(&self, key: &str) -> Option<Guarded> {
        self.link.guard.guarded(|| Some(slot(key)), || self.clock.now())
    }

    fn still_counts(&self, key: &str, asked: Instant) -> bool {
        let guard = &self.link.guard;
        self.link.is_open() && guard.extend_fault(|| Some(slot(key)), asked).is_none()
    }

    fn acquire(&self, claim: &Claim, params: VoteParams) -> Reply<Vote> {
        Box::pin(self.vote(claim, params))
    }

    fn extend(&self, claim: &Claim, params: VoteParams) -> Reply<Extension> {
        let (link, asked) = (Arc::clone(&self.link), self.clock.now());
        let reply = self.extension(claim, params);
        Box::pin(async move {
            unless_replaced(reply.await?, || link.guard.extend_fault(|| None, asked))
        })
    }

    fn release(
        &self,
        claim: &Claim,
        lifetime: Duration,
        how: ReleaseMode,
        timeout: Duration,
    ) -> Reply<bool> {
        let command = release(claim, lifetime, how);
        Box::pin(self.send_command(Command { timeout, ..command }, reply::released))
    }

    fn ping(&self, key: &str, timeout: Duration) -> Reply<()> {
        Box::pin(self.send_command(Command { timeout, ..probe(key) }, reply::written))
    }

    fn inspect(&self, key: &str, timeout: Duration) -> Reply<Option<Holder>> {
        let command = inspect_script(key);
        Box::pin(self.send_command(Command { timeout, ..command }, reply::holder))
    }

    fn keys(&self, containing: &str, timeout: Duration) -> Reply<Vec<String>> {
        let (queue, route) = (Arc::clone(&self.queue), Arc::clone(&self.route));
        let (pattern, clock) = (containing_pattern(containing), Arc::clone(&self.clock));
        let ask =
            move |cursor: &[u8]| send(&queue, Command { timeout, ..list_script(cursor, &pattern) });
        let mut reply = ask(FIRST_PAGE);
        Box::pin(async move {
            let mut found = Vec::new();
            loop {
                // A page is small, so a server without one in time is silent.
                let late = clock.sleep_until(clock.now() + timeout);
                let page = match select(pin!(reply), late).await {
                    Either::Left((page, _)) => page.and_then(|value| reply::page(&value)),
                    Either::Right(_) => {
                        Err(Fault::new(format!("no reply within {}", seconds(timeout))))
                    }
                };
                let (cursor, keys) = page.map_err(|fault| route.redact_fault(fault))?;
                found.extend(keys);
                if cursor == FIRST_PAGE {
                    return Ok(found);
                }
                reply = ask(&cursor);
            }
        })
    }

    fn questions(&self, commands: &Arc<[Vec<String>]>) -> Reply<Vec<ServerReplies>> {
        let (route, commands) = (Arc::clone(&self.route), Arc::clone(commands));
        let (reply_to, reply) = oneshot::channel();
        // Sockets and timers belong to the runtime of the background thread.
        let asked =
            questions::query_server(route, commands).map(|replies| drop(reply_to.send(replies)));
        background::spawn(asked).detach();
        let ended = |_| Err(Fault::new("the background thread has ended"));
        Box::pin(
            reply.map(move |replies| replies.unwrap_or_else(ended).map(|replies| vec![replies])),
        )
    }

    fn may_leave_keys(&self) -> bool {
        self.link.may_leave_keys(self.clock.now())
    }

    fn drained(&self) -> Reply<()> {
        // Without a connection, only deletes wait for one. Nothing else needs to arrive.
        if !self.link.is_open() && !self.may_leave_keys() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.send_command(ping(), |_| Ok(())))
    }
}
