//! Queries the servers of a Redis Cluster for the owners of the hash slots, and schedules the next query.
//!
//! One such query of several servers is a discovery. At most one discovery runs at a time, however many commands were
//! redirected meanwhile. It compares the replies of several servers, because one of them may be partitioned. While a
//! problem persists, discoveries become less frequent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::cmd;

use super::map::Member;
use super::topology::{Topology, View, compare, view};
use crate::clock::{Clock, Instant, NEVER, jittered};
use crate::node::Fault;
use crate::node::redis::commands::command::Purpose;
use crate::node::redis::commands::scripts::plain;
use crate::node::redis::server::send;
use crate::runtime::environment::timeout;

/// How long a reply may take once there is a connection.
const SLOTS_REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// The minimum and maximum time to wait for more replies after the first. Between them, it is as long as the replies so
/// far took. If less than half of the servers have replied, it is the maximum.
const MORE_REPLIES_WAIT: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1));
/// The shortest pause between two queries of the slots. Redirects may ask for one at any time.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// The longest pause between discoveries while a problem exists, at first and after [`FAILOVER`].
const MAX_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Longer than a failover takes. Until then, another server may take over at any time.
pub(super) const FAILOVER: Duration = Duration::from_secs(30);

pub(super) type FoundTopology = Result<Topology, Fault>;

/// How soon a discovery is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// After the current pause.
    AfterPause,
    /// For a command that waits although a problem persists.
    Soon,
    /// Without the pause, because something new happened.
    Now,
}

pub(super) struct Discovery {
    clock: Arc<dyn Clock>,
    running: Option<BoxFuture<'static, FoundTopology>>,
    begun: Option<Instant>,
    /// When the next discovery begins. It may be wanted while another one is under way.
    due: Option<Instant>,
    since: Option<Instant>,
}

impl Discovery {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, running: None, begun: None, due: None, since: None }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the pause between two discoveries. While a problem exists, it is as long as the problem has lasted.
    fn pause(&self) -> Duration {
        let lasted = self.since.map_or(Duration::ZERO, |since| self.clock.now().since(since));
        let (soon, later) = MAX_PAUSE;
        lasted.clamp(MIN_INTERVAL, if lasted < FAILOVER { soon } else { later })
    }

    /// Schedules another discovery.
    pub(super) fn schedule(&mut self, when: When) {
        if when == When::Now {
            (self.due, self.since) = (None, None);
        }
        let (now, pause) = (self.clock.now(), self.pause());
        self.due.get_or_insert(self.begun.map_or(now, |begun| (begun + pause).max(now)));
        if when == When::Soon {
            let soon = self.begun.map(|begun| begun + MAX_PAUSE.0);
            self.due = self.due.min(soon.or(self.due));
        }
    }

    /// Schedules the next discovery if a problem exists. Without a known server, only a command is a reason for another
    /// discovery ([`Self::schedule`]).
    pub(super) fn settle(&mut self, problem: bool, known: bool) {
        let now = self.clock.now();
        self.since = problem.then(|| self.since.unwrap_or(now));
        if problem && known {
            self.due.get_or_insert(now + jittered(self.pause()));
        }
    }

    /// Starts a discovery of these servers. `known` means that the map already has servers.
    pub(super) fn start_discovery(&mut self, members: Vec<Arc<Member>>, known: bool) {
        (self.due, self.begun) = (None, Some(self.clock.now()));
        self.running = Some(Box::pin(query_members(members, known, Arc::clone(&self.clock))));
    }

    /// Waits for the next event: the result of a discovery, or `None` when the next discovery is due.
    pub(super) async fn next(&mut self) -> Option<FoundTopology> {
        if let Some(running) = &mut self.running {
            let found = running.await;
            self.running = None;
            return Some(found);
        }
        match self.due {
            Some(due) => self.clock.sleep_until(due).await,
            None => std::future::pending().await,
        }
        None
    }
}

/// Compares the reports of the servers, or returns why none replied. `known` means that the map already has servers.
async fn query_members(
    members: Vec<Arc<Member>>,
    known: bool,
    clock: Arc<dyn Clock>,
) -> FoundTopology {
    let (begun, enough) = (clock.now(), members.len() / 2 + 1);
    let mut replies: FuturesUnordered<_> = members.into_iter().map(query_member).collect();
    let (mut views, mut why): (Vec<View>, Option<Fault>) = (Vec::new(), None);
    // No limit before the first reply, because each request has its own timeout.
    let mut end = NEVER;
    while let Ok(Some(found)) = timeout(end.since(clock.now()), replies.next()).await {
        match found {
            Ok(found) => views.push(found),
            // An error that no retry can fix takes precedence over a problem of one server.
            Err(fault) => match &why {
                Some(other) if fault.remedy() <= other.remedy() => {}
                _ => why = Some(fault),
            },
        }
        // The fastest server alone may be the partitioned one. Yet a failed server must not delay a client's first
        // command.
        let now = clock.now();
        end = match views.len() {
            0 => end,
            count if known && count < enough => end.min(now + MORE_REPLIES_WAIT.1),
            _ => end.min(now + now.since(begun).clamp(MORE_REPLIES_WAIT.0, MORE_REPLIES_WAIT.1)),
        };
    }
    if views.is_empty() {
        return Err(why.unwrap_or_else(|| Fault::new("no server of the cluster is known")));
    }
    Ok(compare(&views))
}

/// Returns the slots that one server reports, or an error if it takes too long.
async fn query_member(member: Arc<Member>) -> Result<View, Fault> {
    let ask = |what| send(&member.node.queue, plain(cmd("CLUSTER").arg(what), Purpose::Plain));
    // Sent together, so that they share a round trip.
    let (slots, nodes) = (ask("SLOTS"), ask("NODES"));
    let replies = async { Ok((slots.await?, nodes.await?)) };
    let within = member.node.route.connect_timeout() + SLOTS_REPLY_TIMEOUT;
    let reply = match timeout(within, replies).await {
        Ok(replies) => replies.and_then(|(slots, nodes)| view(&slots, &nodes, &member.address)),
        Err(_) => Err(Fault::new("it did not report the owners of the slots in time")),
    };
    match reply {
        // A cluster without known slots cannot be used.
        Ok(found) if found.ranges.is_empty() => {
            Err(Fault::new("it reports no server with slots")
                .with_origin(&member.address.to_string()))
        }
        Ok(found) => Ok(found),
        Err(fault) => {
            Err(member.node.route.redact_fault(fault).with_origin(&member.address.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::OffsetClock;

    /// A cluster without slots, or one whose servers do not reply, while commands wait for it.
    #[tokio::test]
    async fn unusable_cluster_is_queried_less_and_less_often() {
        let clock = OffsetClock::default();
        let mut discovery = Discovery::new(Arc::new(clock.clone()));
        let (end, mut pauses) = (clock.now() + Duration::from_secs(5), Vec::new());
        while clock.now() < end {
            discovery.schedule(When::AfterPause);
            let pause = discovery.due.unwrap().since(clock.now());
            clock.advance(pause);
            discovery.start_discovery(Vec::new(), false);
            assert!(discovery.next().await.unwrap().is_err());
            discovery.settle(true, false);
            assert_eq!(discovery.due, None, "no command waits");
            pauses.push(pause);
        }
        assert!(pauses.iter().all(|pause| *pause <= MAX_PAUSE.0), "{pauses:?}");
        assert!(pauses.len() < 30, "{pauses:?}");
    }
}
