//! Talks to one sentinel over one connection: requests the primary of a service, and receives events.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::super::endpoint::Endpoint;
use super::super::login::{Protocol, log_in};
use super::super::stream::Stream;
use super::super::talk::{Talk, cannot_connect};
use super::word::Word;
use crate::node::Fault;

/// The events after which the sentinel is asked again. The leader of a failover announces the switch only after all
/// replicas follow the new primary. It announces the promotion immediately, and names the new primary from then on.
const EVENTS: [&str; 2] = ["+switch-master", "+promoted-slave"];

/// An open connection to one sentinel.
pub(super) struct Sentinel {
    talk: Talk,
    /// Whether the connection uses RESP3. In RESP2 a subscribed connection cannot send requests.
    resp3: bool,
}

impl Sentinel {
    /// Connects and logs in.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, Fault> {
        let stream = Stream::connect(endpoint).await.map_err(|error| cannot_connect(&error))?;
        let mut talk = Talk::over(stream);
        let resp3 = matches!(log_in(&mut talk, endpoint).await?, Protocol::Resp3(_));
        Ok(Self { talk, resp3 })
    }

    /// Returns the primary of the service, or `None` if the sentinel does not know the service.
    pub(super) async fn ask(&mut self, service: &str) -> Result<Option<Word>, Fault> {
        let questions = ["GET-MASTER-ADDR-BY-NAME", "MASTER"];
        let questions = questions.map(|what| cmd("SENTINEL").arg(what).arg(service).clone());
        let answers = self.talk.ask(&questions).await?;
        Word::read(&answers[0], &answers[1])
    }

    /// Subscribes to the events that [`Self::event`] waits for, if possible.
    pub(super) async fn listen(&mut self) -> Result<(), Fault> {
        if !self.resp3 {
            return Ok(());
        }
        let mut subscribe: Cmd = cmd("SUBSCRIBE");
        subscribe.arg(&EVENTS);
        self.talk.tell(&[subscribe]).await?;
        // Without the permission to subscribe, the sentinel is only polled.
        self.talk.next().await.map(drop)
    }

    /// Waits for an event, for at most `most`.
    pub(super) async fn event(&mut self, most: Duration) -> Result<(), Fault> {
        match tokio::time::timeout(most, self.talk.next()).await {
            Ok(Ok(Value::ServerError(error))) => {
                let said = error.details().unwrap_or_default();
                Err(Fault::new("it replied ").saying(said, ""))
            }
            Ok(said) => said.map(drop),
            Err(_) => Ok(()),
        }
    }
}
