//! One connection to one server: first in, first out, pipelined, with reconnects and the deletes it owes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::address::Server;
use super::{Change, Fault, Roster, Watch};
use crate::clock::{Clock, Instant};
use crate::log;

mod answers;
mod command;
mod handshake;
mod session;
mod stream;

use command::VotesFrom;
pub(super) use command::{Command, Expects, Link, Purpose, Question};
use handshake::Greeting;
use session::{End, Session};

/// A delete that was never confirmed.
struct Owed {
    question: Question,
    until: Instant,
}

/// More debts than this are forgotten oldest first: the keys expire by themselves.
const MAX_OWED: usize = 10_000;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Where a connection goes, and what it must find there.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) server: Server,
    pub(crate) guard: Duration,
    pub(crate) roster: Arc<Roster>,
}

impl Target {
    async fn open(self) -> Result<Greeting, Fault> {
        let greeting = handshake::open(&self.server, self.guard).await?;
        if let Some(run_id) = &greeting.run_id {
            let entered = self.roster.enter(&self.url, run_id);
            entered.map_err(|fault| fault.hushed(&self.server))?;
        }
        let eviction = greeting.eviction.as_deref().unwrap_or("noeviction");
        if eviction != "noeviction" {
            log::event!(
                WARN, { node: self.url, maxmemory_policy: self.server.hush(eviction) },
                "the server may evict lock keys when its memory is full: use noeviction"
            );
        }
        Ok(greeting)
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
    owed: VecDeque<Owed>,
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
        Self { target, clock, watch, link, commands, owed: VecDeque::new(), polling_said: false }
    }

    /// Serves until the client is gone and every command it gave was answered.
    pub(super) async fn run(mut self) {
        let Some(first) = self.commands.recv().await else {
            return;
        };
        let mut waiting = Some(first);
        let mut pause = FIRST_PAUSE;
        let mut last = Fault::new("not connected yet");
        loop {
            // Only a node's very first attempt is worth waiting for.
            let opened = if waiting.is_some() {
                self.target.clone().open().await
            } else {
                let Some(opened) = self.open_refusing(&last).await else { return };
                opened
            };
            let fault = match opened {
                Ok(greeting) => {
                    pause = FIRST_PAUSE;
                    let end = self.serve(greeting, waiting.take()).await;
                    self.link.closed();
                    match end {
                        End::Idle => return,
                        End::Broken(fault) => fault,
                    }
                }
                Err(fault) => fault,
            };
            if fault.is_invalid() && fault != last {
                self.warn(&fault);
            } else {
                log::event!(
                    INFO, { node: self.target.url, fault: fault }, "no connection"
                );
            }
            if let Some(command) = waiting.take() {
                self.refuse(command, &fault);
            }
            self.watch.changed(Change::All);
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            if !self.refuse_for(jittered, &fault).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            last = fault;
        }
    }

    async fn serve(&mut self, greeting: Greeting, first: Option<Command>) -> End {
        let votes_from = match greeting.votes_after {
            _ if self.target.guard.is_zero() => VotesFrom::Now,
            Some(wait) => VotesFrom::At(self.clock.now() + wait),
            None => VotesFrom::Never,
        };
        self.link.opened(greeting.pushes, votes_from);
        if let Some(fault) = self.link.quarantine(self.clock.now()) {
            self.warn(&fault);
        }
        if !greeting.pushes && !self.polling_said {
            self.polling_said = true;
            log::event!(
                WARN, { node: self.target.url },
                "the server offers no client tracking: waiters poll, holders learn of a loss at the next renewal"
            );
        }
        self.watch.changed(Change::All);
        Session::new(self, greeting, first).run().await
    }

    fn warn(&self, fault: &Fault) {
        log::event!(WARN, { node: self.target.url }, "{fault}", fault = fault);
    }

    /// Connects while answering every command with the last fault; `None` once the client is gone and owes nothing.
    async fn open_refusing(&mut self, last: &Fault) -> Option<Result<Greeting, Fault>> {
        let refusal = not_connected(last);
        let mut opening = std::pin::pin!(self.target.clone().open());
        let mut more = true;
        loop {
            tokio::select! {
                opened = &mut opening => return Some(opened),
                command = self.commands.recv(), if more => match command {
                    Some(command) => self.refuse(command, &refusal),
                    None if self.owed.is_empty() => return None,
                    None => more = false,
                },
            }
        }
    }

    /// Answers with the fault for this long; false once the client is gone and nothing is owed.
    async fn refuse_for(&mut self, pause: Duration, fault: &Fault) -> bool {
        let text = not_connected(fault);
        let mut over = std::pin::pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                () = &mut over => return true,
                command = self.commands.recv() => if let Some(command) = command {
                    self.refuse(command, &text);
                } else {
                    self.forget_expired();
                    if self.owed.is_empty() {
                        return false;
                    }
                    over.as_mut().await;
                    return true;
                }
            }
        }
    }

    /// A command that cannot go out: it is never queued across a reconnect, except as a debt.
    fn refuse(&mut self, command: Command, fault: &Fault) {
        self.owe(&command);
        let _ = command.answer.send(Err(fault.clone()));
    }

    fn owe(&mut self, command: &Command) {
        if let Purpose::Delete { until } = command.question.purpose
            && until > self.clock.now()
        {
            if self.owed.len() >= MAX_OWED {
                self.owed.pop_front();
            }
            self.owed.push_back(Owed { question: command.question.clone(), until });
        }
    }

    fn forget_expired(&mut self) {
        let now = self.clock.now();
        self.owed.retain(|debt| debt.until > now);
    }

    /// Why this vote may not be given, if it may not.
    fn guarded(&self, command: &Command) -> Option<Fault> {
        let first = matches!(command.question.purpose, Purpose::FirstVote);
        if first { self.link.quarantine(self.clock.now()) } else { None }
    }
}
