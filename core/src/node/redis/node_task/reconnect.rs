//! Runs the attempts to connect: pauses, opens connections, and lets commands wait or fail, as the [`AttemptPolicy`]
//! says. Once the client is gone, it goes on while a delete is pending.
//!
//! A command after an idle time, or a change of the server, ends the pause.
//!
//! Lock commands are never queued across a reconnect, because a late vote is useless and delays its delete. They wait
//! for an attempt that began shortly before, or fail immediately. How long they wait depends on how often commands
//! arrive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::attempt_policy::{AttemptPolicy, OnCommand};
use crate::clock::{Instant, jittered};
use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::command::Purpose;
use crate::node::redis::connect::{Discovery, Opened, PreviousConnections, open};
use crate::node::redis::connection::task::context::Context;
use crate::node::redis::protocol::Backlog;
use crate::node::redis::protocol::InFlight;
use crate::runtime::environment::{Sleep, race, sleep};

/// An attempt that takes longer may hang on a lost packet or a dead address. Another one then starts in parallel.
const HANGS_AFTER: Duration = Duration::from_secs(2);
/// The maximum number of parallel attempts.
const MAX_CONCURRENT_ATTEMPTS: usize = 3;

/// The state of the attempts so far.
#[derive(Default)]
pub(crate) struct Reconnect {
    /// The previous connections, to any server.
    pub(crate) previous_connections: PreviousConnections,
    /// Why the last attempt failed. `None` before the first one.
    pub(crate) last: Option<Fault>,
    pub(super) policy: AttemptPolicy,
    /// Those of the last connection.
    pub(super) supported: Capabilities,
}

/// The attempts under way while commands arrive.
#[derive(Default)]
struct Attempts {
    /// Usually one. Another one starts if a command arrives and the first may hang on a dead address.
    running: FuturesUnordered<BoxFuture<'static, Opened>>,
    /// When the last one started.
    begun: Option<Instant>,
    /// Completes when the last one takes too long.
    hangs: Option<Sleep>,
    /// Whether one has failed. Then no other one starts because the last one takes too long. Otherwise one would always
    /// be under way to a node that does not reply, and the failure would never count.
    failed: bool,
}

impl Attempts {
    /// Starts an attempt because the server has changed. Earlier ones may hang on the previous server.
    fn restart(&mut self, context: &Context, reconnect: &Reconnect) {
        *self = Self::default();
        self.start_attempt(context, reconnect);
    }

    fn start_attempt(&mut self, context: &Context, reconnect: &Reconnect) {
        if self.running.len() >= MAX_CONCURRENT_ATTEMPTS {
            return;
        }
        let (target, resolver) = (context.target.clone(), Arc::clone(&context.resolver));
        let step = context.link.begin_attempt();
        let previous_connections = reconnect.previous_connections.clone();
        let attempt = open(target, resolver, previous_connections, reconnect.discovery(), step);
        self.running.push(Box::pin(attempt));
        self.begun = Some(context.clock.now());
        self.hangs = Some(sleep(HANGS_AFTER));
    }

    /// Returns the result of an attempt, or `None` if the last one hangs and another one must start.
    async fn next(&mut self) -> Option<Opened> {
        let full = self.running.len() >= MAX_CONCURRENT_ATTEMPTS;
        let hangs = async {
            match &mut self.hangs {
                Some(hangs) if !full && !self.failed => hangs.await,
                _ => std::future::pending().await,
            }
        };
        race! {
            Some(opened) = self.running.next() => {
                self.failed |= opened.is_err();
                Some(opened)
            }
            () = hangs => None,
        }
    }
}

impl Reconnect {
    /// Connects after a pause. Meanwhile commands fail with the last error.
    ///
    /// A command after an idle time starts the attempt immediately and waits for it, together with simultaneous
    /// commands. So do all commands before the first attempt. Returns `None` once the client is gone and no delete is
    /// pending.
    pub(crate) async fn open(
        &mut self,
        context: &mut Context,
        waiting: &mut Vec<InFlight>,
    ) -> Option<Opened> {
        // All commands until the next result get this error of the last attempt.
        let refusal = self.last.as_ref().map(not_connected);
        // At least half of the pause is random, so that many clients do not reconnect at the same time.
        let pause = self.policy.pause();
        let mut pause_ends = sleep(jittered(pause));
        let (mut attempts, mut more) = (Attempts::default(), true);
        let opened = loop {
            // At the start of the task, the first attempt follows immediately.
            if attempts.begun.is_none() && pause.is_zero() {
                attempts.start_attempt(context, self);
            }
            let backlog = Backlog::available(&mut context.backlog);
            race! {
                ended = attempts.next(), if attempts.begun.is_some() => match ended {
                    // The first successful attempt counts. A failure counts only if it is the last one.
                    Some(opened) if opened.is_ok() || attempts.running.is_empty() => break opened,
                    Some(_) => {}
                    None => attempts.start_attempt(context, self),
                },
                () = context.news.any() => attempts.restart(context, self),
                () = &mut pause_ends, if attempts.begun.is_none() => {
                    attempts.start_attempt(context, self);
                }
                command = backlog.commands.recv(), if more => match (command, &refusal) {
                    // Before the first attempt, no error exists that could be returned.
                    (Some(command), None) => backlog.wait(command, waiting),
                    (Some(command), Some(refusal)) => {
                        self.on_command(context, command, refusal, &mut attempts, waiting);
                    }
                    (None, _) => {
                        more = false;
                        if is_done_without_client(context, waiting) {
                            return None;
                        }
                    }
                }
            }
        };
        if opened.is_err() && !waiting.is_empty() {
            self.policy.attempted(attempts.begun, context.clock.now());
        }
        Some(opened)
    }

    /// Decides how the next attempt finds out what the server supports. A server that was of no use gets one connection
    /// for each attempt.
    ///
    /// It may have closed the last one because it supports fewer commands than the server before, or because it does
    /// not work. Only the former replies to the commands that locks need.
    fn discovery(&self) -> Discovery {
        match &self.last {
            _ if !self.policy.is_useless() => Discovery::Full,
            Some(fault) if fault.is_hung_up() => Discovery::IfAlive,
            _ => Discovery::Known(self.supported),
        }
    }

    /// Lets a command wait for an attempt, or refuses it immediately.
    fn on_command(
        &mut self,
        context: &mut Context,
        command: InFlight,
        refusal: &Fault,
        attempts: &mut Attempts,
        waiting: &mut Vec<InFlight>,
    ) {
        // A key is restored at once or not at all. A connection begins with the pending deletes, which may include that
        // of its lease.
        if matches!(command.command.purpose, Purpose::Heal(_)) {
            return context.fail(command, refusal);
        }
        // Uses the current time, because the last event of an attempt may be long ago.
        let now = context.clock.now();
        match self.policy.on_command(now, attempts.begun, !waiting.is_empty()) {
            OnCommand::Refuse => context.fail(command, refusal),
            OnCommand::Wait => Backlog::available(&mut context.backlog).wait(command, waiting),
            OnCommand::StartAndWait => {
                attempts.start_attempt(context, self);
                Backlog::available(&mut context.backlog).wait(command, waiting);
            }
        }
    }
}

/// Called once the client is gone. Returns whether nothing is left to send. Pending deletes are sent as long as their
/// keys may exist.
fn is_done_without_client(context: &mut Context, waiting: &mut Vec<InFlight>) -> bool {
    // A vote without its caller is never sent, and its delete is then not needed. Other deletes become pending.
    for command in waiting.extract_if(.., |command| !command.has_caller()) {
        context.fail(command, &Fault::new("the client is gone"));
    }
    let backlog = Backlog::available(&mut context.backlog);
    backlog.pending.forget_expired(context.clock.now());
    backlog.pending.is_empty() && waiting.is_empty()
}

/// Returns the error for commands without a connection. Errors about the options are returned unchanged.
fn not_connected(fault: &Fault) -> Fault {
    if fault.permanent().is_some() {
        return fault.clone();
    }
    Fault::new(format!("not connected: {fault}")).after(fault)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::{Clock, Sleep};
    use crate::node::redis::commands::command::{Command, Expects};
    use crate::node::redis::io::endpoint::ServerAddress;
    use crate::node::redis::protocol::Target;
    use crate::node::redis::protocol::redirects::{ClusterSender, ConnectionEvent};
    use crate::node::{Durability, Needs, Watch};
    use crate::options::Address;

    /// A clock that the test sets, in milliseconds.
    #[derive(Default)]
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Instant {
            Instant::from_start(Duration::from_millis(self.0.load(Ordering::Relaxed)))
        }

        fn wall_micros(&self) -> u64 {
            0
        }

        fn sleep_until(&self, _at: Instant) -> Sleep {
            Box::pin(std::future::pending())
        }
    }

    /// A node of a cluster, without a connection.
    struct Setup {
        clock: Arc<Set>,
        node: Reconnect,
        context: Context,
        attempts: Attempts,
        waiting: Vec<InFlight>,
        events: UnboundedReceiver<(ServerAddress, ConnectionEvent)>,
    }

    impl Setup {
        fn new(url: &str) -> Self {
            let (clock, watch) = (Arc::<Set>::default(), Arc::new(Watch::new(Arc::default())));
            let Ok(Address::Redis(route)) = Address::parse(url) else { unreachable!() };
            let (key_prefix, durability) = ("lock:".to_owned(), Durability::default());
            let needs = Needs { key_prefix, durability };
            let mut target = Target::alone(route, Duration::ZERO, needs, Arc::default());
            let ((to, events), commands) = (unbounded_channel(), unbounded_channel().1);
            let from = ServerAddress::new("server", 1);
            target.cluster = Some(ClusterSender { to, from, rerouted: Weak::new() });
            let context =
                Context::new(target, Arc::clone(&clock) as _, watch, Arc::default(), commands);
            let (node, attempts) = (Reconnect::default(), Attempts::default());
            Self { clock, node, context, attempts, waiting: Vec::new(), events }
        }

        /// Submits a command at this time in milliseconds. Returns whether it waits.
        fn submit(&mut self, millis: u64, in_flight: InFlight) -> bool {
            self.clock.0.store(millis, Ordering::Relaxed);
            let (waited, refusal) = (self.waiting.len(), Fault::new("not connected"));
            let Self { node, context, attempts, waiting, .. } = self;
            node.on_command(context, in_flight, &refusal, attempts, waiting);
            self.waiting.len() > waited
        }

        fn fail(&mut self) {
            let (context, fault) = (&mut self.context, Fault::new("no reply"));
            self.waiting.drain(..).for_each(|command| context.fail(command, &fault));
            self.attempts = Attempts::default();
        }
    }

    fn vote(token: &str) -> (InFlight, oneshot::Receiver<Result<redis::Value, Fault>>) {
        let purpose = Purpose::FirstVote { token: token.into(), sent: false };
        let (reply_to, caller) = oneshot::channel();
        (InFlight::new(Command::new(Vec::new(), Expects::Anything, purpose), reply_to), caller)
    }

    fn delete(token: &str) -> InFlight {
        let (bytes, lifetime) = (token.as_bytes().to_vec(), Duration::from_secs(10));
        let purpose = Purpose::delete(token.into(), lifetime);
        InFlight::without_caller(Command::new(bytes, Expects::Anything, purpose))
    }

    #[tokio::test(start_paused = true)]
    async fn deletes_of_waiting_votes_displace_no_pending_delete() {
        let mut setup = Setup::new("redis://127.0.0.1");
        // Its vote was sent over the connection that broke.
        setup.context.fail(delete("sent"), &Fault::new("the connection broke"));
        // The callers time out while an attempt hangs. Then they try again, and are refused immediately.
        for round in 0..6 {
            for (millis, waits) in [(5000 * round, true), (5000 * round + 2000, false)] {
                let tokens: Vec<_> = (0..6000).map(|at| format!("{millis}-{at}")).collect();
                let (votes, callers): (Vec<_>, Vec<_>) = tokens.iter().map(|at| vote(at)).unzip();
                for vote in votes {
                    assert_eq!(setup.submit(millis, vote), waits, "at {millis}");
                }
                drop(callers);
                for token in &tokens {
                    assert!(!setup.submit(millis + 1000, delete(token)));
                }
            }
            assert!(setup.waiting.iter().all(InFlight::is_unwanted), "a vote without its delete");
            setup.fail();
        }
        let pending = Backlog::available(&mut setup.context.backlog).pending.take_all();
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[0].bytes, b"sent");
        assert_eq!(setup.events.len(), 1, "the cluster keeps deletes that are not needed");
    }

    #[tokio::test(start_paused = true)]
    async fn restoring_a_key_waits_for_no_connection() {
        let mut setup = Setup::new("redis://127.0.0.1");
        let (mut heal, caller) = vote("first");
        heal.command.purpose = Purpose::Heal("heal".into());
        assert!(!setup.submit(0, heal), "its lease may be released before there is a connection");
        assert!(caller.await.unwrap().is_err());
        assert!(setup.submit(0, vote("second").0));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_to_a_silent_node_end() {
        let mut attempts = Attempts::default();
        let timer = || Some(sleep(HANGS_AFTER));
        attempts.running.push(Box::pin(std::future::pending()));
        attempts.hangs = timer();
        assert!(attempts.next().await.is_none(), "another one starts");
        attempts.running.push(Box::pin(std::future::ready(Err(Fault::new("no reply")))));
        attempts.hangs = timer();
        assert!(attempts.next().await.is_some_and(|opened| opened.is_err()));
        assert!(
            tokio::time::timeout(HANGS_AFTER * 2, attempts.next()).await.is_err(),
            "none starts"
        );
    }

    /// A closed client opened connections to a silent server for several seconds.
    #[tokio::test(start_paused = true)]
    async fn attempts_without_a_client_go_on_for_deletes_only() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        for (is_sent, ends) in [(false, true), (true, false)] {
            let mut setup = Setup::new(&format!("redis://{}", server.local_addr().unwrap()));
            let commands = [vote("first").0, delete("first")];
            for command in commands.into_iter().skip(usize::from(is_sent)) {
                Backlog::available(&mut setup.context.backlog).wait(command, &mut setup.waiting);
            }
            let opened = setup.node.open(&mut setup.context, &mut setup.waiting);
            let ended = tokio::time::timeout(HANGS_AFTER / 2, opened).await;
            assert_eq!(ended.is_ok_and(|opened| opened.is_none()), ends, "{is_sent}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn change_of_the_server_ends_attempts_that_hang() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let mut setup = Setup::new(&format!("redis://{}", server.local_addr().unwrap()));
        let (first, _caller) = vote("first");
        setup.waiting.push(first);
        let accepted = || std::iter::from_fn(|| server.accept().ok()).collect::<Vec<_>>();
        let resolver = Arc::clone(&setup.context.resolver);
        let Setup { node, context, waiting, .. } = &mut setup;
        let failover = async {
            tokio::time::sleep(HANGS_AFTER * 9 / 4).await;
            let before = accepted();
            resolver.report_change();
            tokio::time::sleep(HANGS_AFTER / 8).await;
            (before.len(), accepted().len())
        };
        tokio::select! {
            _ = node.open(context, waiting) => panic!("the server replies to none"),
            counts = failover => assert_eq!(counts, (MAX_CONCURRENT_ATTEMPTS, 1)),
        }
    }
}
