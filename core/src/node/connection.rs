//! One connection to one server: first in, first out, pipelined, with reconnects and the deletes it owes.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;

use super::address::Server;
use super::{Change, Fault, Roster, Watch};
use crate::clock::{Clock, Instant};
use crate::log;

mod answers;
mod command;
mod debts;
mod dial;
mod flood;
mod handshake;
mod rights;
mod session;
mod stream;
#[cfg(test)]
mod tests;

use command::VotesFrom;
pub(super) use command::{Command, Expects, Link, Purpose, Question};
use debts::Debts;
use handshake::{Former, Greeting, new_guard};
use session::{End, Session};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted so long was a good one: the next is tried without delay.
const GOOD: Duration = Duration::from_secs(1);
/// Who asks so soon after an attempt began waits for its outcome.
const JOIN: Duration = Duration::from_millis(50);
/// Commands begin no attempt for this long after one that they began, and for this many times as long as it took: a
/// node that is known to be down is a fault at once for those who ask often.
const CALM: (Duration, u32) = (Duration::from_millis(200), 10);
/// Longer than any attempt takes: whoever comes after so long without a command does not ask often.
const IDLE: Duration = Duration::from_millis(2500);

/// Where a connection goes, and what it must find there.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) server: Server,
    pub(crate) guard: Duration,
    pub(crate) key_prefix: String,
    pub(crate) roster: Arc<Roster>,
}

/// A greeting, and whether nothing of the former connection can arrive any more.
type Opened = Result<(Greeting, bool), Fault>;

impl Target {
    async fn open(self, former: Option<Former>) -> Opened {
        let mut greeting = handshake::open(&self.server, self.guard, &self.key_prefix).await?;
        if let Some(run_id) = &greeting.run_id {
            let entered = self.roster.enter(&self.url, run_id);
            entered.map_err(|fault| fault.hushed(&self.server))?;
        }
        let killed = match &former {
            Some(former) => greeting.kill(former).await?,
            None => true,
        };
        let eviction = greeting.eviction.as_deref().unwrap_or("noeviction");
        if eviction != "noeviction" {
            log::event!(
                WARN, { node: self.url, maxmemory_policy: self.server.hush(eviction) },
                "the server may evict lock keys when its memory is full: use noeviction"
            );
        }
        Ok((greeting, killed))
    }
}

fn not_connected(fault: &Fault) -> Fault {
    if fault.is_invalid() { fault.clone() } else { Fault::new(format!("not connected: {fault}")) }
}

pub(super) struct Connection {
    target: Target,
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    link: Arc<Link>,
    commands: UnboundedReceiver<Command>,
    debts: Debts,
    /// The last connection, unless it ended with everything answered.
    former: Option<Former>,
    /// The run of the server that was behind the URL last.
    run_id: Option<String>,
    /// Before then a server that took another's place takes no first vote.
    not_before: Option<Instant>,
    /// Why the last attempt failed; `None` before there was one.
    last: Option<Fault>,
    /// When the last attempt ended that a command had begun, and how long it had taken.
    tried: Option<(Instant, Duration)>,
    /// When the last command came that found no connection.
    asked: Option<Instant>,
    /// Said once, not at every reconnect.
    polling_said: bool,
}

impl Connection {
    pub(super) fn new(
        target: Target,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
        link: Arc<Link>,
        commands: UnboundedReceiver<Command>,
    ) -> Self {
        Self {
            target,
            clock,
            watch,
            link,
            commands,
            debts: Debts::default(),
            former: None,
            run_id: None,
            not_before: None,
            last: None,
            tried: None,
            asked: None,
            polling_said: false,
        }
    }

    /// Serves until the client is gone and every command it gave was answered. Should it panic, what was under way is
    /// refused, and the next command finds it as new.
    pub(super) async fn run(mut self) {
        while AssertUnwindSafe(self.serve_all()).catch_unwind().await.is_err() {
            self.link.closed();
            self.watch.changed(Change::All);
            self.last = None;
            log::event!(
                ERROR, { node: self.target.url.clone() }, "the node's own task panicked, and begins anew"
            );
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }

    async fn serve_all(&mut self) {
        let mut waiting = Vec::new();
        // Nothing connects before the first use.
        if self.debts.is_empty() {
            match self.commands.recv().await {
                Some(first) => waiting.push(first),
                None => return,
            }
        }
        let mut pause = Duration::ZERO;
        loop {
            let Some(opened) = self.open(pause, &mut waiting).await else { return };
            let fault = match opened {
                Ok((greeting, killed)) => {
                    let opened = self.clock.now();
                    let end = self.serve(greeting, killed, std::mem::take(&mut waiting)).await;
                    self.link.closed();
                    let End::Broken(fault) = end else { return };
                    if self.clock.now().since(opened) > GOOD {
                        pause = Duration::ZERO;
                    }
                    self.watch.changed(Change::All);
                    fault
                }
                Err(fault) => fault,
            };
            if fault.is_invalid() && self.last.as_ref() != Some(&fault) {
                self.warn(&fault);
            } else {
                log::event!(
                    INFO, { node: self.target.url, fault: fault }, "no connection"
                );
            }
            waiting.drain(..).for_each(|command| self.refuse_unsent(command, &fault));
            self.last = Some(fault);
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// Connects after a pause, while commands are answered with the last fault. One that comes after a while without
    /// any has the attempt begin at once, and waits for it, as do those that come with it, and all before the first.
    /// `None` once the client is gone and owes nothing.
    async fn open(&mut self, pause: Duration, waiting: &mut Vec<Command>) -> Option<Opened> {
        let refusal = self.last.as_ref().map(not_connected);
        let mut over =
            std::pin::pin!(tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)));
        let (mut attempts, mut begun, mut more) = (FuturesUnordered::new(), None, true);
        let opened = loop {
            let now = self.clock.now();
            if begun.is_none() && pause.is_zero() {
                attempts.push(self.attempt());
                begun = Some(now);
            }
            tokio::select! {
                Some(opened) = attempts.next() => if opened.is_ok() || attempts.is_empty() {
                    break opened;
                },
                () = &mut over, if begun.is_none() => {
                    attempts.push(self.attempt());
                    begun = Some(now);
                }
                command = self.commands.recv(), if more => match (command, &refusal) {
                    (Some(command), None) => waiting.push(command),
                    (Some(command), Some(refusal)) => {
                        let age = begun.map(|at| now.since(at));
                        let young = age.is_some_and(|age| age <= JOIN);
                        let again = self.tries_again(now, waiting);
                        if again && !young {
                            // Beside one that is under way: on a slow link that one may be the first to end well.
                            attempts.push(self.attempt());
                            begun = Some(now);
                        }
                        if again || (young && !waiting.is_empty()) {
                            waiting.push(command);
                        } else {
                            self.refuse_unsent(command, refusal);
                        }
                    }
                    (None, _) => {
                        more = false;
                        self.debts.forget_expired(now);
                        if self.debts.is_empty() && waiting.is_empty() {
                            return None;
                        }
                    }
                }
            }
        };
        let now = self.clock.now();
        if opened.is_ok() {
            (self.tried, self.asked) = (None, None);
        } else if let Some(begun) = begun.filter(|_| !waiting.is_empty()) {
            self.tried = Some((now, now.since(begun)));
        }
        Some(opened)
    }

    /// Whether a command that comes now begins an attempt of its own.
    fn tries_again(&mut self, now: Instant, waiting: &[Command]) -> bool {
        let idle = self.asked.replace(now).is_none_or(|asked| now.since(asked) > IDLE);
        let (least, times) = CALM;
        let calm = |took: Duration| least.max(took * times);
        let over = self.tried.is_none_or(|(tried, took)| now.since(tried) > calm(took));
        idle || (waiting.is_empty() && over)
    }

    fn attempt(&self) -> Pin<Box<dyn Future<Output = Opened> + Send>> {
        Box::pin(self.target.clone().open(self.former.clone()))
    }

    async fn serve(&mut self, greeting: Greeting, killed: bool, waiting: Vec<Command>) -> End {
        let pushes = greeting.pushes;
        let votes_from = self.votes_from(&greeting);
        self.link.opened(pushes, votes_from);
        if let Some(fault) = self.link.quarantine(self.clock.now()) {
            self.warn(&fault);
        }
        if !pushes && !self.polling_said {
            self.polling_said = true;
            log::event!(
                WARN, { node: self.target.url },
                "the server offers no client tracking: waiters poll, holders learn of a loss at the next renewal"
            );
        }
        self.former = Some(greeting.as_former());
        self.watch.changed(Change::All);
        let end = Session::new(self, greeting.talk, killed, waiting).run().await;
        if matches!(end, End::Idle) {
            self.former = None;
        }
        end
    }

    fn warn(&self, fault: &Fault) {
        log::event!(WARN, { node: self.target.url }, "{fault}", fault = fault);
    }

    /// From when on the server takes first votes: not before it is old enough, by its own word and by ours.
    fn votes_from(&mut self, greeting: &Greeting) -> VotesFrom {
        let guard = self.target.guard;
        if let Some(run_id) = &greeting.run_id {
            let known = self.run_id.replace(run_id.clone());
            if known.is_some_and(|known| known != *run_id) {
                // Of whatever age, it may lack what the one before it knew: a replica that was promoted.
                self.not_before = Some(self.clock.now() + new_guard(guard));
            }
        }
        match greeting.votes_after {
            _ if guard.is_zero() => VotesFrom::Now,
            Some(wait) => self.votes_after(wait),
            None => VotesFrom::Never,
        }
    }

    fn votes_after(&self, wait: Duration) -> VotesFrom {
        let from = self.clock.now() + wait;
        VotesFrom::At(self.not_before.map_or(from, |at| at.max(from)))
    }

    /// A command that cannot go out: it is never queued across a reconnect, except as a debt.
    fn refuse_unsent(&mut self, command: Command, fault: &Fault) {
        self.debts.never_sent(&command.question);
        self.refuse(command, fault);
    }

    fn refuse(&mut self, command: Command, fault: &Fault) {
        self.debts.owe(command.question, self.clock.now());
        let _ = command.answer.send(Err(fault.clone()));
    }

    /// Why this vote may not be given, if it may not.
    fn guarded(&self, command: &Command) -> Option<Fault> {
        let first = matches!(command.question.purpose, Purpose::FirstVote { .. });
        if first { self.link.quarantine(self.clock.now()) } else { None }
    }
}
