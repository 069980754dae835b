//! One sentinel, over one connection: what it says of a service, and when it says that something changed.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::super::endpoint::Endpoint;
use super::super::login::log_in;
use super::super::stream::Stream;
use super::super::talk::{Talk, cannot_connect};
use super::word::Word;
use crate::node::Fault;

/// What is worth asking again for. The leader of a failover tells of a switch only once all replicas follow; that one of
/// them was promoted it tells at once, and names it from then on.
const EVENTS: [&str; 2] = ["+switch-master", "+promoted-slave"];

/// An open connection to one sentinel.
pub(super) struct Sentinel {
    talk: Talk,
    /// By its own word of the protocol: in RESP2 whoever listens cannot ask.
    resp3: bool,
}

impl Sentinel {
    /// Connects, and logs in.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, Fault> {
        let stream = Stream::connect(endpoint).await.map_err(|error| cannot_connect(&error))?;
        let mut talk = Talk::over(stream);
        let resp3 = log_in(&mut talk, endpoint).await?.is_some();
        Ok(Self { talk, resp3 })
    }

    /// Where the service's primary is; `None` if it knows no such service.
    pub(super) async fn ask(&mut self, service: &str) -> Result<Option<Word>, Fault> {
        let questions = ["GET-MASTER-ADDR-BY-NAME", "MASTER"];
        let questions = questions.map(|what| cmd("SENTINEL").arg(what).arg(service).clone());
        let answers = self.talk.ask(&questions).await?;
        Word::read(&answers[0], &answers[1])
    }

    /// Has it tell of what [`Self::event`] waits for, if it can.
    pub(super) async fn listen(&mut self) -> Result<(), Fault> {
        if !self.resp3 {
            return Ok(());
        }
        let mut subscribe: Cmd = cmd("SUBSCRIBE");
        subscribe.arg(&EVENTS);
        self.talk.tell(&[subscribe]).await?;
        // It may not be allowed: then it is asked from time to time alone.
        self.talk.next().await.map(drop)
    }

    /// Ends when it tells of something, or after `most` without a word.
    pub(super) async fn event(&mut self, most: Duration) -> Result<(), Fault> {
        match tokio::time::timeout(most, self.talk.next()).await {
            Ok(Ok(Value::ServerError(error))) => {
                let said = error.details().unwrap_or_default();
                Err(Fault::new("it said ").saying(said, ""))
            }
            Ok(said) => said.map(drop),
            Err(_) => Ok(()),
        }
    }
}
