//! The way to the next connection: when an attempt begins, and who waits for its outcome.
//!
//! Lock commands are never queued across a reconnect: a vote that goes out late is worth nothing and delays its
//! delete. They wait for an attempt that is about to end, or are faults at once; how long depends on how often
//! somebody asks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::context::{Context, Opening, Target};
use super::endpoint::Endpoint;
use super::formers::Formers;
use super::handshake::{self, Greeting};
use super::in_flight::InFlight;
use super::route::{Finder, Found};
use crate::clock::Instant;
use crate::log;
use crate::node::Fault;

/// Who asks so soon after an attempt began waits for its outcome.
/// Commands that come together are answered together.
const JOIN: Duration = Duration::from_millis(50);
/// Commands begin no attempt for this long after one that they began, and for this many times as long as it took: a
/// node that is known to be down is a fault at once for those who ask often.
const CALM: (Duration, u32) = (Duration::from_millis(200), 10);
/// Who comes after so long without a command does not ask often, and begins an attempt. Without this an
/// idle client would say for up to a second that a server is down that is back.
const IDLE: Duration = Duration::from_millis(2500);

/// An attempt that takes longer may hang on a lost packet or a dead address: another one begins beside it.
const HANGS: Duration = Duration::from_secs(2);
/// How many attempts run at a time, at most.
const MOST: usize = 3;

/// What an attempt comes to.
pub(super) type Opened = Result<Opening, Fault>;

/// What is known of the attempts so far.
#[derive(Default)]
pub(super) struct Reconnect {
    /// The connections that were there, to whichever server.
    pub(super) formers: Formers,
    /// Why the last attempt failed; `None` before there was one.
    pub(super) last: Option<Fault>,
    /// When the last attempt ended that a command had begun, and how long it had taken.
    tried: Option<(Instant, Duration)>,
    /// When the last command came that found no connection.
    asked: Option<Instant>,
}

/// An attempt's own state, while commands come.
#[derive(Default)]
struct Attempts {
    /// Usually one. A second is begun where a command comes and the first may hang on a dead address.
    running: FuturesUnordered<Pin<Box<dyn Future<Output = Opened> + Send>>>,
    /// When the last one began.
    begun: Option<Instant>,
    /// Ends once that one takes long.
    hangs: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Attempts {
    /// One attempt more, beside those that hang.
    fn begin(&mut self, context: &Context, formers: &Formers) {
        if self.running.len() >= MOST {
            return;
        }
        let (target, finder) = (context.target.clone(), Arc::clone(&context.finder));
        self.running.push(Box::pin(open(target, finder, formers.clone())));
        self.begun = Some(context.clock.now());
        self.hangs = Some(Box::pin(tokio::time::sleep(HANGS)));
    }

    /// The outcome of one. `None`: the last one hangs, and another one is to begin beside it.
    async fn next(&mut self) -> Option<Opened> {
        let full = self.running.len() >= MOST;
        let hangs = async {
            match &mut self.hangs {
                Some(hangs) if !full => hangs.await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(opened) = self.running.next() => Some(opened),
            () = hangs => None,
        }
    }
}

impl Reconnect {
    /// Connects after a pause, while commands are answered with the last fault. One that comes after a while without
    /// any has the attempt begin at once, and waits for it, as do those that come with it, and all before the first.
    /// `None` once the client is gone and owes nothing.
    pub(super) async fn open(
        &mut self,
        context: &mut Context,
        pause: Duration,
        waiting: &mut Vec<InFlight>,
    ) -> Option<Opened> {
        // The same for all who come meanwhile: what is known is why the last attempt failed.
        let refusal = self.last.as_ref().map(not_connected);
        // Half of the pause at least, at random: many clients of one server do not come back in step.
        let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let mut pause_ends = std::pin::pin!(tokio::time::sleep(jittered));
        // The client is there.
        let (mut attempts, mut more) = (Attempts::default(), true);
        let opened = loop {
            // After a good connection the next is tried at once.
            if attempts.begun.is_none() && pause.is_zero() {
                attempts.begin(context, &self.formers);
            }
            tokio::select! {
                ended = attempts.next(), if attempts.begun.is_some() => match ended {
                    // Of several the first that works; only the last one's failure is the failure.
                    Some(opened) if opened.is_ok() || attempts.running.is_empty() => break opened,
                    Some(_) => {}
                    None => attempts.begin(context, &self.formers),
                },
                // Another server is worth an attempt at once, beside one that may hang on the last.
                () = context.news.any() => attempts.begin(context, &self.formers),
                () = &mut pause_ends, if attempts.begun.is_none() => {
                    attempts.begin(context, &self.formers);
                }
                command = context.commands.recv(), if more => match (command, &refusal) {
                    // Before the first attempt nothing is known that could be told.
                    (Some(command), None) => waiting.push(command),
                    (Some(command), Some(refusal)) => {
                        self.join_or_refuse(context, (command, refusal), &mut attempts, waiting);
                    }
                    (None, _) => {
                        more = false;
                        // Nobody is left who asks: what is owed is paid while it can matter, then this ends.
                        context.debts.forget_expired(context.clock.now());
                        if context.debts.is_empty() && waiting.is_empty() {
                            return None;
                        }
                    }
                }
            }
        };
        self.note(opened.is_ok(), attempts.begun.filter(|_| !waiting.is_empty()), context);
        Some(opened)
    }

    /// A command that comes while there is no connection waits for an attempt, or is refused at once.
    fn join_or_refuse(
        &mut self,
        context: &mut Context,
        (command, refusal): (InFlight, &Fault),
        attempts: &mut Attempts,
        waiting: &mut Vec<InFlight>,
    ) {
        // Now, not when the last thing happened: an attempt may have heard nothing for long.
        let now = context.clock.now();
        let young = attempts.begun.is_some_and(|at| now.since(at) <= JOIN);
        let again = self.tries_again(now, waiting);
        if again && !young {
            // Beside one that is under way: on a slow link that one may be the first to end well.
            attempts.begin(context, &self.formers);
        }
        if again || (young && !waiting.is_empty()) {
            waiting.push(command);
        } else {
            context.refuse_unsent(command, refusal);
        }
    }

    /// Whether a command that comes now begins an attempt of its own.
    ///
    /// At most one in [`CALM`], unless nobody has asked for a while: each attempt has those who wait for it
    /// listen to a dead node for as long as it takes.
    fn tries_again(&mut self, now: Instant, waiting: &[InFlight]) -> bool {
        let idle = self.asked.replace(now).is_none_or(|asked| now.since(asked) > IDLE);
        let (least, times) = CALM;
        let calm = |took: Duration| least.max(took * times);
        let over = self.tried.is_none_or(|(tried, took)| now.since(tried) > calm(took));
        idle || (waiting.is_empty() && over)
    }

    /// An attempt is over; `begun`: a command waits for it.
    fn note(&mut self, opened: bool, begun: Option<Instant>, context: &Context) {
        let now = context.clock.now();
        if opened {
            // What was learnt is of no use for the next break.
            (self.tried, self.asked) = (None, None);
        } else if let Some(begun) = begun {
            self.tried = Some((now, now.since(begun)));
        }
    }
}

/// What is wrong with the options is said as it is; the rest is only why there is no connection.
fn not_connected(fault: &Fault) -> Fault {
    if fault.permanent().is_some() {
        return fault.clone();
    }
    Fault::new(format!("not connected: {fault}")).after(fault)
}

/// Of a cluster each server has some of the keys: a lock of another one's would be refused, now or after a migration.
fn mistaken(endpoint: &Endpoint, clustered: bool) -> Fault {
    let scheme = if endpoint.is_tls() { "rediss" } else { "redis" };
    Fault::invalid(if clustered {
        format!(
            "it is a server of a Redis Cluster, and has some of the keys only: use {scheme}+cluster://host:port"
        )
    } else {
        format!("it is a server that stands alone, of no Redis Cluster: use {scheme}://host:port")
    })
}

/// One attempt, within `connect_timeout`.
async fn open(target: Target, finder: Arc<Finder>, formers: Formers) -> Opened {
    let within = target.route.connect_timeout();
    let opened = tokio::time::timeout(within, find_and_open(&target, &finder, &formers)).await;
    opened.unwrap_or_else(|_| {
        let fault = handshake::too_long(within);
        // A server without TLS may wait for the end of what it takes for a command.
        Err(if target.route.is_tls() { fault.hinting("is this a TLS port?") } else { fault })
    })
}

/// Finds the server, connects, logs in, checks that it is no other node's, and has the former connection ended.
async fn find_and_open(target: &Target, finder: &Finder, formers: &Formers) -> Opened {
    let (found, mut greeting) = reach(target, finder).await?;
    let Target { url, route, run_ids, outlet, .. } = target;
    // A server that does not say is believed: what it answers will tell.
    if let Some(clustered) = greeting.clustered
        && clustered != outlet.is_some()
    {
        return Err(mistaken(&found.endpoint, clustered));
    }
    if let Some(run_id) = &greeting.run_id {
        // A node of one server has one at a time, wherever that is.
        let address = outlet.as_ref().map_or_else(String::new, |outlet| outlet.from.to_string());
        let entered = run_ids.enter(url, &address, run_id);
        entered.map_err(|fault| route.redact_fault(fault))?;
    }
    // Before anything is paid or asked: nothing of the former one may come after it.
    let killed = formers.kill(&mut greeting).await?;
    // A server that does not say, as its user may not ask, is believed.
    let eviction = greeting.eviction.as_deref().unwrap_or("noeviction");
    if eviction != "noeviction" {
        log::event!(
            Warn, Node, { node: url.as_str(), maxmemory_policy: route.redact(eviction) },
            "the server may evict lock keys when its memory is full: use noeviction"
        );
    }
    Ok(Opening { greeting, killed, found })
}

/// Finds the server, connects and logs in.
async fn reach(target: &Target, finder: &Finder) -> Result<(Found, Greeting), Fault> {
    let (found, mut news) = (finder.find().await?, finder.news());
    let (endpoint, primary) = (&found.endpoint, found.primary_for().is_some());
    let greeting = handshake::open(endpoint, primary, target.guard, &target.needs).await;
    let greeting =
        greeting.map_err(|fault| if primary { fault.of(&endpoint.authority()) } else { fault })?;
    // While it was greeted another one may have taken its place, and a vote of it would count for nothing.
    if news.has_left(&found) { Err(news.left(&found).await) } else { Ok((found, greeting)) }
}
