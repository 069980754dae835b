//! Asks one sentinel for the primary of a service, and determines which of several reports is the newest.
//!
//! Each failover has a larger epoch than the one before. A partitioned sentinel reports the primary of an earlier
//! failover, which may still consider itself the primary.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::node::Fault;
use crate::node::redis::commands::capabilities::Capabilities;
use crate::node::redis::commands::errors::words;
use crate::node::redis::commands::reply;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::io::step::Step;
use crate::node::redis::login::BatchConnection;
use crate::node::redis::login::log_in;
use crate::runtime::environment::timeout;
use crate::text::{host_and_port, shown};

/// The primary that one sentinel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// A name or address, as configured at the sentinels.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The epoch of the failover that made it the primary, if the sentinel reports it.
    pub(crate) epoch: Option<u64>,
    /// How long this sentinel has seen it as the primary. It has been the primary for at least this time.
    pub(crate) since: Duration,
}

impl Report {
    /// Parses the replies to `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER`. Returns `None` if the service is
    /// unknown.
    pub(crate) fn parse(place: &Value, about: &Value) -> Result<Option<Self>, Fault> {
        let (host, port) = match place {
            Value::Nil => return Ok(None),
            Value::Array(parts) => match &parts[..] {
                [host, port] => (words(host), words(port)),
                _ => return Err(reply::unexpected(place)),
            },
            _ => return Err(reply::unexpected(place)),
        };
        let Ok(port) = port.parse() else { return Err(reply::unexpected(place)) };
        let epoch = field(about, "config-epoch").and_then(|epoch| epoch.parse().ok());
        // During a failover, the leader's first reply names the new primary, while its second one describes the old
        // one.
        let same = field(about, "ip").as_ref() == Some(&host)
            && field(about, "port").is_some_and(|told| told.parse() == Ok(port));
        let since = field(about, "role-reported-time").filter(|_| same);
        let since = since.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        Ok(Some(Self { host, port, epoch, since: since.unwrap_or_default() }))
    }

    pub(crate) fn address(&self) -> String {
        shown(&host_and_port(&self.host, self.port))
    }

    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    pub(crate) fn is_after(&self, other: &Self) -> bool {
        matches!((self.epoch, other.epoch), (Some(this), Some(that)) if this > that)
    }

    /// Returns this report, or a newer one about the same server. A sentinel that missed failovers away from the server
    /// and back reports too old an epoch for it.
    pub(crate) fn or_newer(&self, known: Option<&Self>) -> Self {
        known.filter(|known| known.is_at(self) && known.is_after(self)).unwrap_or(self).clone()
    }

    /// Whether this report names another primary than `known`, the newest report so far. `before` is the previous
    /// report of the same sentinel, which may have `lost_state`.
    pub(crate) fn is_news(&self, before: Option<&Self>, lost_state: bool, known: &Self) -> bool {
        // Epochs may be missing, or restart when a service is removed and added again, or when all sentinels lose their
        // state. A sentinel that then changes its report is trusted. A sentinel that only catches up with the others
        // reports a larger epoch than before.
        let restarts = |before: &Self| lost_state && before.is_at(known);
        let catches_up = |before| self.is_after(before) && !restarts(before);
        let changed = before.is_some_and(|before| !self.is_at(before) && !catches_up(before));
        !self.is_at(known) && (self.is_after(known) || changed)
    }
}

/// Returns one field of a sentinel's description, which is a map or a list of alternating names and values.
fn field(about: &Value, name: &str) -> Option<String> {
    let of = |key: &Value, value: &Value| (words(key) == name).then(|| words(value));
    match about {
        Value::Map(pairs) => pairs.iter().find_map(|(key, value)| of(key, value)),
        Value::Array(parts) => parts.chunks_exact(2).find_map(|pair| of(&pair[0], &pair[1])),
        _ => None,
    }
}

/// The events after which the primary is requested again. The leader of a failover announces the switch only after all
/// replicas follow the new primary. It announces the promotion immediately, and names the new primary from then on.
const EVENTS: [&str; 2] = ["+switch-master", "+promoted-slave"];
/// The polling interval while listening, because events may be lost and a dead connection sends nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A sentinel that does not reply for this long is given up.
const SENTINEL_REPLY_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Sentinel {
    connection: BatchConnection,
    /// Whether the connection uses RESP3. In RESP2 a subscribed connection cannot send requests.
    resp3: bool,
}

impl Sentinel {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, Fault> {
        let mut connection = BatchConnection::open(endpoint).await?;
        let hello = log_in(&mut connection, endpoint, &mut Capabilities::default()).await;
        let hello = hello.map_err(|fault| {
            if !fault.is_hung_up() || endpoint.is_tls() {
                return fault;
            }
            fault.hinting(
                "if it uses TLS, write rediss+sentinel://, or add sentinel_tls=true if its servers do not use TLS",
            )
        })?;
        Ok(Self { connection, resp3: hello.is_some() })
    }

    /// Returns the primary of the service, or `None` if the sentinel does not know the service.
    pub(crate) async fn query_primary(&mut self, service: &str) -> Result<Option<Report>, Fault> {
        let questions = ["GET-MASTER-ADDR-BY-NAME", "MASTER"];
        let questions = questions.map(|what| cmd("SENTINEL").arg(what).arg(service).clone());
        let replies = self.connection.request(&questions).await?;
        Report::parse(&replies[0], &replies[1])
    }

    /// Subscribes to the events that [`Self::event`] waits for, if possible.
    async fn subscribe(&mut self) -> Result<(), Fault> {
        if !self.resp3 {
            return Ok(());
        }
        let mut subscribe: Cmd = cmd("SUBSCRIBE");
        subscribe.arg(&EVENTS);
        self.connection.send_all(&[subscribe]).await?;
        // Without the permission to subscribe, the sentinel is only polled.
        self.connection.next().await.map(drop)
    }

    /// Waits for an event, for at most [`POLL_INTERVAL`].
    async fn event(&mut self) -> Result<(), Fault> {
        match timeout(POLL_INTERVAL, self.connection.next()).await {
            Ok(Ok(Value::ServerError(_))) => Err(Fault::new("it replied with an error")),
            Ok(event) => event.map(drop),
            Err(_) => Ok(()),
        }
    }
}

/// Calls `on_report` with each report of a sentinel until its connection fails.
pub(crate) async fn follow(
    endpoint: &Endpoint,
    service: &str,
    mut on_report: impl FnMut(Report),
) -> Result<(), Fault> {
    let silent = |_| Fault::new("it did not reply");
    let (step, limit) = (Step::default(), endpoint.connect_timeout);
    let mut sentinel = step.within(limit, Sentinel::open(endpoint)).await?;
    timeout(SENTINEL_REPLY_TIMEOUT, sentinel.subscribe()).await.map_err(silent)??;
    loop {
        // Asked after the subscription, so that no event is missed in between.
        let report = timeout(SENTINEL_REPLY_TIMEOUT, sentinel.query_primary(service))
            .await
            .map_err(silent)??;
        report.into_iter().for_each(&mut on_report);
        sentinel.event().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(port: u16, epoch: impl Into<Option<u64>>) -> Report {
        Report { host: "h".into(), port, epoch: epoch.into(), since: Duration::ZERO }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn only_a_later_failover_is_news() {
        let known = report(1, 5);
        assert!(report(2, 6).is_news(None, false, &known));
        assert!(!report(2, 4).is_news(None, false, &known));
        assert!(!report(2, 5).is_news(None, false, &known));
        assert!(!report(1, 6).is_news(None, false, &known));
        // It catches up and is still behind.
        assert!(!report(2, 4).is_news(Some(&report(3, 3)), false, &known));
    }

    #[test]
    fn outdated_sentinel_does_not_revive_an_old_primary() {
        let seen = |epoch, seconds| {
            let since = Duration::from_secs(seconds);
            Report { since, ..report(1, epoch) }
        };
        // The server was also the primary in epoch 5, and this sentinel missed the later failovers.
        let known = seen(7, 1);
        assert_eq!(seen(5, 3600).or_newer(Some(&known)), known);
        assert_eq!(seen(7, 30).or_newer(Some(&known)), seen(7, 30));
    }

    #[test]
    fn accepts_a_new_primary_without_an_epoch_change() {
        let known = report(1, 5);
        assert!(report(2, 0).is_news(Some(&report(1, 5)), false, &known));
        assert!(report(2, None).is_news(Some(&report(1, None)), false, &report(1, None)));
        // The sentinels lost their state before this failover.
        assert!(report(2, 1).is_news(Some(&report(1, 0)), true, &known));
        assert!(!report(2, 1).is_news(Some(&report(1, 0)), false, &known));
        assert!(!report(2, 1).is_news(Some(&report(3, 0)), true, &known));
        assert!(!report(2, None).is_news(Some(&report(2, None)), false, &report(1, None)));
        assert!(!report(2, None).is_news(None, false, &report(1, None)));
    }

    #[test]
    fn age_belongs_to_the_reported_primary() {
        let place = Value::Array(vec![text("10.0.0.1"), text("6379")]);
        let told = |ip: &str| {
            let pairs = [
                ("ip", ip),
                ("port", "6379"),
                ("config-epoch", "7"),
                ("role-reported-time", "1500"),
            ];
            pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect::<Vec<_>>()
        };
        let map = Value::Map(told("10.0.0.1"));
        let flat = Value::Array(told("10.0.0.1").into_iter().flat_map(|(a, b)| [a, b]).collect());
        for about in [map, flat] {
            let report = Report::parse(&place, &about).unwrap().unwrap();
            assert_eq!((report.epoch, report.since), (Some(7), Duration::from_millis(1500)));
        }
        let other = Report::parse(&place, &Value::Map(told("10.0.0.2"))).unwrap().unwrap();
        assert_eq!((other.epoch, other.since), (Some(7), Duration::ZERO));
        let silent = Report::parse(&place, &Value::Nil).unwrap().unwrap();
        assert_eq!((silent.epoch, silent.since), (None, Duration::ZERO));
        assert_eq!(Report::parse(&Value::Nil, &Value::Nil), Ok(None));
        assert!(Report::parse(&Value::Okay, &Value::Nil).is_err());
    }
}
