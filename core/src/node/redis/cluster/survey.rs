//! Asking servers which of them has which slots, and when to ask again.
//!
//! One survey at a time, however many commands were sent elsewhere meanwhile. It asks several servers and compares their
//! replies, because one of them may be cut off from the cluster. While something is wrong, surveys become rarer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::cmd;
use tokio::time::timeout;

use super::super::commands::plain;
use super::super::in_flight::Purpose;
use super::super::strays::Address;
use super::map::Member;
use super::topology::{Topology, View, compare, view};
use crate::clock::{Clock, Instant, NEVER};
use crate::node::Fault;

/// How long an answer may take once there is a connection.
const ANSWER: Duration = Duration::from_secs(1);
/// After the first replies the others are waited for as long as those took, within these limits. Fewer than half of the
/// replies are not enough before the longer limit.
const OTHERS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Between two surveys at least.
const BETWEEN: Duration = Duration::from_millis(20);
/// While a server is gone it is asked so often at least who took its place; and after a while, so often.
const LONGEST_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Longer than a failover takes.
const WHILE: Duration = Duration::from_secs(30);

/// What a survey came to.
pub(super) type Found = Result<Topology, Fault>;

/// When to ask, and the question under way.
pub(super) struct Survey {
    clock: Arc<dyn Clock>,
    running: Option<Pin<Box<dyn Future<Output = Found> + Send>>>,
    /// When the last one began.
    begun: Option<Instant>,
    /// When the next one begins.
    due: Option<Instant>,
    /// Before the next survey, where the last one failed.
    pause: Duration,
    /// Since when something is wrong.
    since: Option<Instant>,
    /// Something happened since the one under way began.
    outdated: bool,
}

impl Survey {
    /// Nobody was asked yet.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let (running, begun, due, since) = (None, None, None, None);
        Self { clock, running, begun, due, since, pause: Duration::ZERO, outdated: false }
    }

    /// Whether one is under way.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Another one is to begin, soon. While something is wrong that is after the present pause.
    pub(super) fn want(&mut self) {
        self.outdated = true;
        if self.running.is_none() && self.due.is_none() {
            let (now, pause) = (self.clock.now(), self.pause.max(BETWEEN));
            self.due = Some(self.begun.map_or(now, |begun| (begun + pause).max(now)));
        }
    }

    /// The same without the pause: something new happened.
    pub(super) fn want_now(&mut self) {
        self.rest();
        self.due = None;
        self.want();
    }

    /// As long as something is wrong: again after a pause, longer each time.
    pub(super) fn again(&mut self) {
        let since = *self.since.get_or_insert(self.clock.now());
        let (soon, later) = LONGEST_PAUSE;
        let longest = if self.clock.now().since(since) < WHILE { soon } else { later };
        self.pause = (self.pause * 2).clamp(BETWEEN, longest);
        if self.due.is_none() {
            self.due = Some(self.clock.now() + self.pause.mul_f64(0.5 + fastrand::f64() / 2.0));
        }
    }

    /// All is well.
    pub(super) fn rest(&mut self) {
        (self.pause, self.since) = (Duration::ZERO, None);
    }

    /// Asks these. `known`: the map has servers already.
    pub(super) fn begin(&mut self, members: Vec<Arc<Member>>, known: bool) {
        (self.due, self.outdated, self.begun) = (None, false, Some(self.clock.now()));
        self.running = Some(Box::pin(ask(members, known, Arc::clone(&self.clock))));
    }

    /// Ends when there is something to do: `Some`, what was found; `None`: the next one is due.
    pub(super) async fn next(&mut self) -> Option<Found> {
        if let Some(running) = &mut self.running {
            let found = running.await;
            self.running = None;
            if self.outdated {
                self.want();
            }
            return Some(found);
        }
        match self.due {
            Some(due) => self.clock.sleep_until(due).await,
            None => std::future::pending().await,
        }
        None
    }
}

/// What the servers report, compared; else why none does. `known`: the map has servers already.
async fn ask(members: Vec<Arc<Member>>, known: bool, clock: Arc<dyn Clock>) -> Found {
    let (begun, enough) = (clock.now(), members.len() / 2 + 1);
    let mut answers: FuturesUnordered<_> = members.into_iter().map(ask_one).collect();
    let (mut views, mut why): (Vec<View>, Option<Fault>) = (Vec::new(), None);
    // Without any reply: each question has its own timeout.
    let mut end = NEVER;
    while let Ok(Some(found)) = timeout(end.since(clock.now()), answers.next()).await {
        match found {
            Ok(found) => views.push(found),
            // What no retry can change is reported before what is wrong with a server.
            Err(fault) => match &why {
                Some(other) if fault.remedy() <= other.remedy() => {}
                _ => why = Some(fault),
            },
        }
        // The nearest server alone may be the one that is cut off. A dead one must not hold up a client's first command.
        let now = clock.now();
        end = match views.len() {
            0 => end,
            count if known && count < enough => end.min(now + OTHERS.1),
            _ => end.min(now + now.since(begun).clamp(OTHERS.0, OTHERS.1)),
        };
    }
    if views.is_empty() {
        return Err(why.unwrap_or_else(|| Fault::new("no server of the cluster is known")));
    }
    Ok(compare(&views))
}

/// What one server reports of the slots, in time or not at all.
async fn ask_one(member: Arc<Member>) -> Result<View, Fault> {
    let nowhere = Address::new("", 0);
    let address = member.address.as_ref().unwrap_or(&nowhere);
    let ask = |what| member.node.question(plain(cmd("CLUSTER").arg(what), Purpose::Plain));
    // Both at once: they travel together.
    let (slots, nodes) = (ask("SLOTS"), ask("NODES"));
    let answers = async { Ok((slots.await?, nodes.await?)) };
    let within = member.node.route.connect_timeout() + ANSWER;
    let answer = match timeout(within, answers).await {
        Ok(answers) => answers.and_then(|(slots, nodes)| view(&slots, &nodes, address)),
        Err(_) => Err(Fault::new("it did not say in time which server has which slots")),
    };
    match answer {
        // A cluster of which nobody knows anything yet is none to work with.
        Ok(found) if found.ranges.is_empty() => {
            Err(Fault::new("it knows of no server that has slots").of(&address.to_string()))
        }
        Ok(found) => Ok(found),
        Err(fault) => Err(member.node.redact(fault).of(&address.to_string())),
    }
}
