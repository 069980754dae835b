//! Asks all sentinels of a service for its primary, and listens for changes.
//!
//! Any sentinel may be down, partitioned, or behind the others. Therefore a majority must reply before a report is
//! trusted, and every sentinel is monitored. A minority never takes a node back to an earlier primary. An event only
//! triggers a new request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::endpoint::Endpoint;
use super::known::Known;
use super::sentinel::Sentinel;
use super::service::Service;
use super::word::Word;
use crate::clock::jittered;
use crate::node::{Fault, Remedy};
use crate::runtime::background::{self, Task};

/// The polling interval while listening, because events may be lost and a dead connection sends nothing.
const AGAIN: Duration = Duration::from_secs(1);
/// A sentinel that does not reply for this long is given up.
const SILENCE: Duration = Duration::from_secs(2);

/// The sentinels of a service, and their reports to one node.
pub(crate) struct Sentinels {
    service: Arc<Service>,
    known: Arc<Known>,
    /// If the primary has this age, a majority of reports is enough.
    old: Duration,
    /// Started at the first use, and stopped when this is dropped.
    listeners: OnceLock<Vec<Task>>,
}

/// The replies to one search.
#[derive(Default)]
struct Heard {
    /// The reports of the sentinels that know the service.
    words: Vec<Word>,
    /// The errors of the others.
    faults: Vec<String>,
    /// How many sentinels refused the connection or the login.
    refused: usize,
    /// How many sentinels do not know the service.
    strangers: usize,
}

impl Heard {
    /// Returns the report of the latest failover. For the same failover, returns that of the sentinel that has seen it
    /// longest.
    fn newest(&self) -> Option<&Word> {
        self.words.iter().max_by_key(|word| (word.epoch, word.since))
    }
}

impl Sentinels {
    /// Creates the sentinels without asking them. Above the age `old`, the age of a primary does not matter.
    pub(super) fn of(service: Service, old: Duration) -> Self {
        let (service, known) = (Arc::new(service), Arc::new(Known::nothing()));
        Self { service, known, old, listeners: OnceLock::new() }
    }

    /// Returns the reported primary.
    pub(super) async fn find(&self) -> Result<Word, Fault> {
        self.listeners.get_or_init(|| self.listen());
        let mut heard = Heard::default();
        // Uses half of the time for an attempt to connect, because the connection to the server follows. The replies
        // until then must suffice.
        let _ = timeout(self.service.connect_timeout() / 2, self.ask_all(&mut heard)).await;
        let word = self.judge(&heard)?;
        Ok(self.known.settle(&word))
    }

    /// Returns a receiver for all later news.
    pub(super) fn news(&self) -> watch::Receiver<Option<Word>> {
        self.known.subscribe()
    }

    /// Returns the server of a report.
    pub(super) fn server(&self, word: &Word) -> Endpoint {
        self.service.server(word)
    }

    /// Asks the sentinels until a majority has replied and nothing contradicts the newest report.
    ///
    /// A single sentinel may be partitioned together with the previous primary.
    async fn ask_all(&self, heard: &mut Heard) {
        let all = 0..self.service.sentinels.len();
        let mut asked: FuturesUnordered<_> =
            all.map(|at| async move { (at, self.ask(at).await) }).collect();
        while let Some((at, answer)) = asked.next().await {
            match answer {
                Ok(Some(word)) => heard.words.push(word),
                Ok(None) => heard.strangers += 1,
                Err(fault) => {
                    heard.refused += usize::from(fault.remedy() >= Remedy::Refused);
                    let place = self.service.sentinels[at].authority();
                    let fault = fault.redacted(|words| self.service.redact(words));
                    heard.faults.push(fault.of(&place).to_string());
                }
            }
            let sound = |word: &Word| self.known.allows(word) && word.since >= self.old;
            if self.is_most(heard) && heard.newest().is_some_and(sound) {
                return;
            }
        }
    }

    /// Whether a majority replied. A minority may be on the wrong side of a partition.
    fn is_most(&self, heard: &Heard) -> bool {
        heard.words.len() > self.service.sentinels.len() / 2
    }

    /// Asks one sentinel over a separate connection.
    async fn ask(&self, at: usize) -> Result<Option<Word>, Fault> {
        let mut sentinel = Sentinel::open(&self.service.sentinels[at]).await?;
        sentinel.ask(&self.service.name).await
    }

    /// Returns the newest report, unless it leads back to a primary from before a failover.
    fn judge(&self, heard: &Heard) -> Result<Word, Fault> {
        let name = &self.service.name;
        let Some(word) = heard.newest() else {
            if heard.strangers == self.service.sentinels.len() {
                // No retry can fix a wrong name.
                return Err(Fault::invalid(format!(
                    "its sentinels do not know the service {name}"
                )));
            }
            let why = heard.faults.join("; ");
            let why = if why.is_empty() { "none has replied" } else { &why };
            let fault = Fault::new(format!("no sentinel reports the address of {name} ({why})"));
            let all = heard.refused == self.service.sentinels.len();
            return Err(if all { fault.refused() } else { fault });
        };
        // Removing and re-adding a service restarts its epochs, on a majority of the sentinels at the same time.
        if self.known.allows(word) || self.is_most(heard) {
            return Ok(word.clone());
        }
        Err(Fault::new(format!(
            "the sentinels that replied report a primary of {name} from before the last failover"
        )))
    }

    /// Starts a task for each sentinel, which listens to it and reconnects.
    fn listen(&self) -> Vec<Task> {
        let all = 0..self.service.sentinels.len();
        let listen = |at| {
            let (service, known) = (Arc::clone(&self.service), Arc::clone(&self.known));
            background::spawn(async move {
                let (mut before, mut pause) = (None, Duration::ZERO);
                loop {
                    // At least half of the pause is random, so that many clients do not reconnect at the same time.
                    sleep(jittered(pause)).await;
                    // Errors are not reported here. A search that needs the sentinel reports them.
                    let _ = attend(&service, at, &known, &mut before).await;
                    pause = AGAIN;
                }
            })
        };
        all.map(listen).collect()
    }
}

/// Listens to one sentinel until its connection fails. `before` is its previous report.
async fn attend(
    service: &Service,
    at: usize,
    known: &Known,
    before: &mut Option<Word>,
) -> Result<(), Fault> {
    let silent = |_| Fault::new("it did not reply");
    let open = Sentinel::open(&service.sentinels[at]);
    let mut sentinel = timeout(service.connect_timeout(), open).await.map_err(silent)??;
    timeout(SILENCE, sentinel.listen()).await.map_err(silent)??;
    loop {
        // Asked after the subscription, so that no event is missed in between.
        let word = timeout(SILENCE, sentinel.ask(&service.name)).await.map_err(silent)??;
        if let Some(word) = word {
            known.heard(before.as_ref(), &word);
            *before = Some(word);
        }
        sentinel.event(AGAIN).await?;
    }
}
