//! One connection to one server: first in, first out, pipelined, with reconnects and the deletes it owes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::address::Server;
use super::{Change, Fault, Watch};
use crate::clock::{Clock, Instant};

mod handshake;
mod session;
mod stream;

use session::{End, Session};

/// What a command is for decides what becomes of it when the connection dies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A lease's first vote: subject to the restart guard, and not sent once nobody listens for it.
    FirstVote,
    Question,
    /// Owed until then: if its answer was never read, it goes first on the next connection.
    Delete {
        until: Instant,
    },
}

pub(super) struct Command {
    bytes: Vec<u8>,
    purpose: Purpose,
    patience: Duration,
    answer: oneshot::Sender<Result<Value, Fault>>,
    reloaded: bool,
}

impl Command {
    pub(super) fn new(
        bytes: Vec<u8>,
        purpose: Purpose,
        patience: Duration,
        answer: oneshot::Sender<Result<Value, Fault>>,
    ) -> Self {
        Self {
            bytes,
            purpose,
            patience,
            answer,
            reloaded: false,
        }
    }
}

/// What the node may know of its connection without asking.
#[derive(Default)]
pub(super) struct Link {
    pushes: AtomicBool,
    /// Clock nanoseconds before which a first vote is refused; `u64::MAX`: its age cannot be read.
    votes_from: AtomicU64,
}

impl Link {
    pub(super) fn pushes(&self) -> bool {
        self.pushes.load(Ordering::Relaxed)
    }
}

/// A delete that was never confirmed.
struct Owed {
    bytes: Vec<u8>,
    until: Instant,
}

/// More debts than this are forgotten oldest first: the keys expire by themselves.
const MAX_OWED: usize = 10_000;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    url: String,
    server: Server,
    guard: Duration,
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    link: Arc<Link>,
    commands: UnboundedReceiver<Command>,
    owed: VecDeque<Owed>,
}

impl Connection {
    pub(super) fn new(
        url: String,
        server: Server,
        guard: Duration,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
        link: Arc<Link>,
        commands: UnboundedReceiver<Command>,
    ) -> Self {
        let owed = VecDeque::new();
        Self {
            url,
            server,
            guard,
            clock,
            watch,
            link,
            commands,
            owed,
        }
    }

    /// Serves until the client is gone and every command it gave was answered.
    pub(super) async fn run(mut self) {
        let Some(first) = self.commands.recv().await else {
            return;
        };
        let mut waiting = Some(first);
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = match waiting.is_some() {
                // Only a node's very first attempt is worth waiting for.
                true => handshake::open(&self.server, self.guard).await,
                false => match self.open_refusing().await {
                    Some(opened) => opened,
                    None => return,
                },
            };
            let fault = match opened {
                Ok(greeting) => {
                    pause = FIRST_PAUSE;
                    let end = self.serve(greeting, waiting.take()).await;
                    self.link.pushes.store(false, Ordering::Relaxed);
                    match end {
                        End::Idle => return,
                        End::Broken(fault) => fault,
                    }
                }
                Err(fault) => fault,
            };
            tracing::info!(target: "redlock", node = %self.url, %fault, "no connection");
            if let Some(command) = waiting.take() {
                self.refuse(command, &fault);
            }
            self.watch.changed(Change::All);
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            if !self.refuse_for(jittered, &fault).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn serve(&mut self, greeting: handshake::Greeting, first: Option<Command>) -> End {
        let now = self.clock.now();
        let votes_from = greeting.votes_after.map_or(u64::MAX, |wait| {
            u64::try_from((now + wait).as_nanos()).unwrap_or(u64::MAX)
        });
        let votes_from = if self.guard.is_zero() { 0 } else { votes_from };
        self.link.votes_from.store(votes_from, Ordering::Relaxed);
        self.link.pushes.store(greeting.pushes, Ordering::Relaxed);
        if !greeting.pushes {
            tracing::info!(target: "redlock", node = %self.url, "no client tracking: waiters poll");
        }
        self.watch.changed(Change::All);
        Session::new(self, greeting, first).run().await
    }

    /// Connects while answering every command with a fault; `None` once the client is gone.
    async fn open_refusing(&mut self) -> Option<Result<handshake::Greeting, Fault>> {
        let fault = Fault::new("not connected; a new connection is being opened");
        let server = self.server.clone();
        let mut opening = std::pin::pin!(handshake::open(&server, self.guard));
        loop {
            tokio::select! {
                opened = &mut opening => return Some(opened),
                command = self.commands.recv() => self.refuse(command?, &fault),
            }
        }
    }

    /// Answers with the fault for this long; false once the client is gone and nothing is owed.
    async fn refuse_for(&mut self, pause: Duration, fault: &Fault) -> bool {
        let text = Fault::new(format!("not connected: {fault}"));
        let mut over = std::pin::pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                () = &mut over => return true,
                command = self.commands.recv() => match command {
                    Some(command) => self.refuse(command, &text),
                    None => {
                        self.forget_expired();
                        if self.owed.is_empty() {
                            return false;
                        }
                        over.as_mut().await;
                        return true;
                    }
                },
            }
        }
    }

    /// A command that cannot go out: it is never queued across a reconnect, except as a debt.
    fn refuse(&mut self, command: Command, fault: &Fault) {
        self.owe(&command);
        let _ = command.answer.send(Err(fault.clone()));
    }

    fn owe(&mut self, command: &Command) {
        if let Purpose::Delete { until } = command.purpose
            && until > self.clock.now()
        {
            if self.owed.len() >= MAX_OWED {
                self.owed.pop_front();
            }
            self.owed.push_back(Owed {
                bytes: command.bytes.clone(),
                until,
            });
        }
    }

    fn forget_expired(&mut self) {
        let now = self.clock.now();
        self.owed.retain(|debt| debt.until > now);
    }

    /// Why this vote may not be given, if it may not.
    fn guarded(&self, command: &Command) -> Option<Fault> {
        let from = self.link.votes_from.load(Ordering::Relaxed);
        if !matches!(command.purpose, Purpose::FirstVote) || from == 0 {
            return None;
        }
        if from == u64::MAX {
            return Some(Fault::new(
                "its uptime cannot be read (INFO), so it takes no part while restart_guard is on",
            ));
        }
        let left = Instant::from_start(Duration::from_nanos(from)).since(self.clock.now());
        (!left.is_zero()).then(|| {
            Fault::new(format!(
                "it restarted within restart_guard and votes again in {:.1} s",
                left.as_secs_f64()
            ))
        })
    }
}
