//! Implements a connection to one sentinel, which requests the primary of a service and receives events.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::time::timeout;

use super::super::batches::{BatchConnection, cannot_connect};
use super::super::endpoint::Endpoint;
use super::super::login::{Protocol, log_in};
use super::super::stream::Stream;
use super::report::Report;
use crate::node::Fault;

/// The events after which the primary is requested again. The leader of a failover announces the switch only after all
/// replicas follow the new primary. It announces the promotion immediately, and names the new primary from then on.
const EVENTS: [&str; 2] = ["+switch-master", "+promoted-slave"];
/// The polling interval while listening, because events may be lost and a dead connection sends nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A sentinel that does not reply for this long is given up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// An open connection to one sentinel.
pub(super) struct Sentinel {
    connection: BatchConnection,
    /// Whether the connection uses RESP3. In RESP2 a subscribed connection cannot send requests.
    resp3: bool,
}

impl Sentinel {
    /// Connects and logs in.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, Fault> {
        let stream = Stream::connect(endpoint).await.map_err(|error| cannot_connect(&error))?;
        let mut connection = BatchConnection::over(stream);
        let resp3 = matches!(log_in(&mut connection, endpoint).await?, Protocol::Resp3(_));
        Ok(Self { connection, resp3 })
    }

    /// Returns the primary of the service, or `None` if the sentinel does not know the service.
    pub(super) async fn ask(&mut self, service: &str) -> Result<Option<Report>, Fault> {
        let questions = ["GET-MASTER-ADDR-BY-NAME", "MASTER"];
        let questions = questions.map(|what| cmd("SENTINEL").arg(what).arg(service).clone());
        let replies = self.connection.ask(&questions).await?;
        Report::read(&replies[0], &replies[1])
    }

    /// Subscribes to the events that [`Self::event`] waits for, if possible.
    async fn subscribe(&mut self) -> Result<(), Fault> {
        if !self.resp3 {
            return Ok(());
        }
        let mut subscribe: Cmd = cmd("SUBSCRIBE");
        subscribe.arg(&EVENTS);
        self.connection.tell(&[subscribe]).await?;
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
pub(super) async fn follow(
    endpoint: &Endpoint,
    service: &str,
    mut on_report: impl FnMut(Report),
) -> Result<(), Fault> {
    let silent = |_| Fault::new("it did not reply");
    let open = timeout(endpoint.connect_timeout, Sentinel::open(endpoint));
    let mut sentinel = open.await.map_err(silent)??;
    timeout(REPLY_TIMEOUT, sentinel.subscribe()).await.map_err(silent)??;
    loop {
        // Asked after the subscription, so that no event is missed in between.
        let report = timeout(REPLY_TIMEOUT, sentinel.ask(service)).await.map_err(silent)??;
        report.into_iter().for_each(&mut on_report);
        sentinel.event().await?;
    }
}
