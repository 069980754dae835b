//! Finds the server of a node: a fixed one that the URL names, or the primary that sentinels report.
//!
//! Any sentinel may be down, partitioned, or behind the others. Therefore a search waits for a majority, and every
//! sentinel is monitored. If the others do not reply in time, fewer are enough, unless they report an older primary
//! than the known one. A node goes back to an earlier primary only if no sentinel has reported the later one during the
//! search. An event only triggers a new request.

mod report;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::io::step::{self, Step};
use super::url::route::{Route, Service};
use crate::clock::jittered;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::{Fault, Remedy};
use crate::runtime::background::{self, Task};
use crate::runtime::environment::{sleep, timeout};
use crate::text::{shown, spelled};
use report::{Report, Sentinel};

/// The pause before a failed connection to a sentinel is replaced.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How long a search waits for each further reply once a majority has replied.
const FURTHER_REPLY_WAIT: Duration = Duration::from_millis(500);

/// What the sentinels have reported so far.
#[derive(Default)]
struct KnownPrimary {
    /// The newest report of all sentinels, or `None` before the first one.
    report: Option<Report>,
    /// How many reports of the listeners named this primary, including earlier ones.
    confirmed: u64,
}

/// Finds the server of one node. Every attempt to connect uses it.
pub(crate) struct Resolver {
    route: Route,
    known: Arc<watch::Sender<KnownPrimary>>,
    /// If the primary has this age, a majority of reports is enough.
    old: Duration,
    /// Started at the first use, and stopped when this is dropped.
    listeners: OnceLock<Vec<Task>>,
}

#[derive(Clone)]
pub(crate) struct FoundPrimary {
    pub(crate) endpoint: Endpoint,
    /// The report of the sentinels, or `None` if the URL names the server.
    primary: Option<Report>,
    /// The address that the server announces, and who reported it. `None` if the URL names the server.
    announced: Option<(String, Arc<str>)>,
}

impl FoundPrimary {
    /// Explains an announced address that cannot be reached. The URL does not contain it.
    pub(crate) fn origin(&self) -> Option<String> {
        let ((address, by), reached) = (self.announced.as_ref()?, self.endpoint.authority());
        let (address, option) = (shown(address), spelled("address_map"));
        Some(if address == reached {
            format!(
                "{address} was announced by {by}; set {option} if this client reaches it at another address"
            )
        } else {
            format!("{address} was announced by {by}, and {option} leads to {reached}")
        })
    }

    /// Returns how long it has been the primary, at least. `None` without sentinels.
    pub(crate) fn primary_for(&self) -> Option<Duration> {
        self.primary.as_ref().map(|report| report.since)
    }
}

/// The replies to one search, in the order of their arrival. `None` means that a sentinel does not know the service.
type SentinelReplies = Vec<Result<Option<Report>, Fault>>;

/// Returns the reports, and among them that of the latest failover. For the same failover, it is that of the sentinel
/// that has seen it longest.
fn newest(replies: &SentinelReplies) -> (usize, Option<&Report>) {
    let reports = replies.iter().flatten().flatten();
    (reports.clone().count(), reports.max_by_key(|report| (report.epoch, report.since)))
}

impl Resolver {
    /// Creates a resolver. It connects to no sentinel yet. Above the age `old`, the age of a primary does not matter.
    pub(crate) fn new(route: &Route, old: Duration) -> Self {
        let (route, known) = (route.clone(), Arc::default());
        Self { route, known, old, listeners: OnceLock::new() }
    }

    pub(crate) async fn find(&self) -> Result<FoundPrimary, Fault> {
        let Some(service) = &self.route.service else {
            return self.found(self.route.server.clone(), None).await;
        };
        self.listeners.get_or_init(|| {
            let listen = |sentinel: &Endpoint| {
                listen(sentinel.clone(), service.name.clone(), Arc::clone(&self.known))
            };
            service.sentinels.iter().map(|sentinel| background::spawn(listen(sentinel))).collect()
        });
        let (mut replies, confirmed) = (SentinelReplies::new(), self.known.borrow().confirmed);
        step::enter("the sentinels");
        self.ask_all(service, &mut replies).await;
        let mut judged = None;
        self.known.send_if_modified(|known| {
            let current = known.confirmed == confirmed;
            let report = judge(service, &replies, known.report.as_ref(), current);
            let report = report.map(|report| report.or_newer(known.report.as_ref()));
            if let Ok(report) = &report {
                known.report = Some(report.clone());
            }
            judged = Some(report);
            // The next connection goes there anyway, so no waiter is woken.
            false
        });
        let report = judged.expect("the closure has run")?;
        self.found(self.route.server.at(report.host.clone(), report.port), Some(report)).await
    }

    /// Returns the server of this address, which it may have announced.
    async fn found(
        &self,
        server: Endpoint,
        primary: Option<Report>,
    ) -> Result<FoundPrimary, Fault> {
        let announced = self.route.announced_by.as_ref();
        let announced = announced.map(|by| (server.authority(), Arc::clone(by)));
        let endpoint = self.route.reached(server).await?;
        Ok(FoundPrimary { endpoint, primary, announced })
    }

    pub(crate) fn news(&self) -> News {
        News(self.known.subscribe())
    }

    /// Reports a change of the server, as the sentinels do.
    #[cfg(test)]
    pub(crate) fn report_change(&self) {
        self.known.send_modify(|_| ());
    }

    /// Queries the sentinels, each over a separate connection, until a majority has replied and the newest report is
    /// not in doubt. Otherwise it waits for the rest, but not long, because a failover may make the replies obsolete.
    ///
    /// A single sentinel may be partitioned together with the previous primary.
    async fn ask_all(&self, service: &Service, replies: &mut SentinelReplies) {
        // Uses half of the time for an attempt to connect, because the connection to the server follows. The replies
        // until then must suffice.
        let limit = self.route.connect_timeout() / 2;
        let ask = |sentinel| async move {
            let asked =
                async { Sentinel::open(sentinel).await?.query_primary(&service.name).await };
            Step::default().within(limit, asked).await.map_err(|fault: Fault| {
                self.route.redact_fault(fault).with_origin(&sentinel.authority())
            })
        };
        let mut asked: FuturesUnordered<_> = service.sentinels.iter().map(ask).collect();
        let mut wait = self.route.connect_timeout();
        while let Ok(Some(reply)) = timeout(wait, asked.next()).await {
            replies.push(reply);
            let (count, newest) = newest(replies);
            if !service.is_majority(count) {
                continue;
            }
            let sound = |report: &Report| {
                report.since >= self.old && allows(self.known.borrow().report.as_ref(), report)
            };
            if newest.is_some_and(sound) {
                return;
            }
            wait = FURTHER_REPLY_WAIT;
        }
    }
}

/// Whether `known` is not newer than this report.
fn allows(known: Option<&Report>, report: &Report) -> bool {
    known.is_none_or(|known| report.is_at(known) || !known.is_after(report))
}

/// Returns the newest report, unless it names a primary from before a failover. The replies are `current` if no
/// listener has confirmed the `known` primary since the search began.
fn judge(
    service: &Service,
    replies: &SentinelReplies,
    known: Option<&Report>,
    current: bool,
) -> Result<Report, Fault> {
    let (name, all) = (&service.name, service.sentinels.len());
    let (count, newest) = newest(replies);
    let Some(report) = newest else {
        if replies.iter().flatten().count() == all {
            // No retry can fix a wrong name.
            return Err(Fault::invalid(format!("its sentinels do not know the service {name}")));
        }
        let faults = || replies.iter().filter_map(|reply| reply.as_ref().err());
        let why = faults().map(Fault::to_string).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { "none has replied" } else { &why };
        let fault = Fault::new(format!("no sentinel reports the address of {name} ({why})"));
        let refused = faults().filter(|fault| fault.remedy() >= Remedy::Refused).count();
        let fault = if refused == all { fault.refused() } else { fault };
        if !why.contains("NOAUTH") && !why.contains("WRONGPASS") {
            return Err(fault);
        }
        let hint =
            "the login of a sentinel is not that of the servers, but sentinel_password in the URL";
        return Err(fault.hinting(hint));
    };
    // Removing and re-adding a service restarts its epochs, on a majority of the sentinels at the same time. Without a
    // confirmation meanwhile, the replies are not from before a failover that these sentinels have reported since.
    if allows(known, report) || (current && service.is_majority(count)) {
        return Ok(report.clone());
    }
    Err(Fault::new(format!(
        "the sentinels that replied report a primary of {name} from before the last failover"
    )))
}

/// Listens to one sentinel, and reconnects.
async fn listen(sentinel: Endpoint, service: String, known: Arc<watch::Sender<KnownPrimary>>) {
    let (mut previous, mut lost_state) = (None::<Report>, false);
    let mut on_report = |report: Report| {
        lost_state |= previous.as_ref().is_some_and(|previous| previous.is_after(&report));
        known.send_if_modified(|KnownPrimary { report: known, confirmed }| {
            let is_news = |known| report.is_news(previous.as_ref(), lost_state, known);
            let news = known.as_ref().is_none_or(is_news);
            let same = known.as_ref().is_some_and(|known| report.is_at(known));
            *confirmed += u64::from(news || same);
            if news || (same && known.as_ref().is_some_and(|known| report.is_after(known))) {
                *known = Some(report.clone());
            }
            news
        });
        previous = Some(report);
    };
    loop {
        // An error is not reported here. A search that needs the sentinel reports it.
        let _ = report::follow(&sentinel, &service, &mut on_report).await;
        // At least half of the pause is random, so that many clients do not reconnect at the same time.
        sleep(jittered(RECONNECT_PAUSE)).await;
    }
}

/// Waits until the sentinels name another server.
pub(crate) struct News(watch::Receiver<KnownPrimary>);

impl News {
    /// Waits for the next change. Dropping the future loses none.
    pub(crate) async fn any(&mut self) {
        // After the node is dropped, the server never changes.
        if self.0.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    /// Waits until the server has changed. Returns an error that names the new one.
    pub(crate) async fn until_moved(&mut self, found: &FoundPrimary) -> Fault {
        while !self.has_moved(found) {
            self.any().await;
        }
        let address = self.0.borrow().report.as_ref().map(Report::address).unwrap_or_default();
        Fault::new(format!("the sentinels report another primary, {address}"))
    }

    /// Whether the sentinels name another server by now.
    pub(crate) fn has_moved(&self, found: &FoundPrimary) -> bool {
        let Some(primary) = &found.primary else { return false };
        self.0.borrow().report.as_ref().is_some_and(|report| !report.is_at(primary))
    }
}
