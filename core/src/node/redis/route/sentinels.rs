//! All sentinels of one service: asked where its primary is, and listened to for when that changes.
//!
//! Any of them may be dead, cut off, or behind the others. So most are heard before one is believed, each is listened
//! to, no minority takes a node back to an earlier primary, and what is told unasked is a reason to ask.

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
use crate::background::{self, Task};
use crate::node::{Fault, Remedy};

/// How often those are asked that are listened to: an event may be lost, and a dead connection says nothing.
const AGAIN: Duration = Duration::from_secs(1);
/// A sentinel that answers nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(2);

/// A service's sentinels, and what they said to one node.
pub(crate) struct Sentinels {
    service: Arc<Service>,
    known: Arc<Known>,
    /// A primary that was one for so long needs no better word than a majority's.
    old: Duration,
    /// Begun at the first use, ended with this.
    listeners: OnceLock<Vec<Task>>,
}

/// What was heard in one search.
#[derive(Default)]
struct Heard {
    /// One of each sentinel that knew the service.
    words: Vec<Word>,
    /// Why the others said nothing.
    faults: Vec<String>,
    /// So many refused us.
    refused: usize,
    /// So many know no such service.
    strangers: usize,
}

impl Heard {
    /// The word of the latest failover; of one failover, that of whoever has seen it for longest.
    fn newest(&self) -> Option<&Word> {
        self.words.iter().max_by_key(|word| (word.epoch, word.since))
    }
}

impl Sentinels {
    /// Nobody is asked yet. `old`: from which age on a primary's age does not matter.
    pub(super) fn of(service: Service, old: Duration) -> Self {
        let (service, known) = (Arc::new(service), Arc::new(Known::nothing()));
        Self { service, known, old, listeners: OnceLock::new() }
    }

    /// Where they say that the primary is.
    pub(super) async fn find(&self) -> Result<Word, Fault> {
        self.listeners.get_or_init(|| self.listen());
        let mut heard = Heard::default();
        // Half of what an attempt to connect may take: the server is still to come. What was heard by then has to do.
        let _ = timeout(self.service.connect_timeout() / 2, self.ask_all(&mut heard)).await;
        let word = self.judge(&heard)?;
        Ok(self.known.settle(&word))
    }

    /// Every news is told here from now on.
    pub(super) fn news(&self) -> watch::Receiver<Option<Word>> {
        self.known.subscribe()
    }

    /// The server that one of them has named.
    pub(super) fn server(&self, word: &Word) -> Endpoint {
        self.service.server(word)
    }

    /// Asks them until most have answered, and nothing speaks against the newest word.
    ///
    /// One alone may be cut off and behind the others, with the primary of before at its side.
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

    /// Whether most of them were heard: a minority may be on the wrong side of a partition.
    fn is_most(&self, heard: &Heard) -> bool {
        heard.words.len() > self.service.sentinels.len() / 2
    }

    /// One sentinel's word, over a connection of its own.
    async fn ask(&self, at: usize) -> Result<Option<Word>, Fault> {
        let mut sentinel = Sentinel::open(&self.service.sentinels[at]).await?;
        sentinel.ask(&self.service.name).await
    }

    /// The newest of what was heard, unless it leads back to where a failover has left.
    fn judge(&self, heard: &Heard) -> Result<Word, Fault> {
        let name = &self.service.name;
        let Some(word) = heard.newest() else {
            if heard.strangers == self.service.sentinels.len() {
                // No retry mends a wrong name.
                return Err(Fault::invalid(format!("its sentinels know no service {name}")));
            }
            let why = heard.faults.join("; ");
            let why = if why.is_empty() { "none has answered" } else { &why };
            let fault = Fault::new(format!("no sentinel says where {name} is ({why})"));
            let all = heard.refused == self.service.sentinels.len();
            return Err(if all { fault.refused() } else { fault });
        };
        // Who removes a service and puts it in again begins its epochs anew, at most sentinels at once.
        if self.known.allows(word) || self.is_most(heard) {
            return Ok(word.clone());
        }
        Err(Fault::new(format!(
            "the sentinels that answer name a primary of {name} from before the last failover"
        )))
    }

    /// A task for each sentinel, which listens to it, and opens the next connection where one ends.
    fn listen(&self) -> Vec<Task> {
        let all = 0..self.service.sentinels.len();
        let listen = |at| {
            let (service, known) = (Arc::clone(&self.service), Arc::clone(&self.known));
            background::spawn(async move {
                let (mut before, mut pause) = (None, Duration::ZERO);
                loop {
                    // Half of the pause at least, at random: many clients do not come back in step.
                    sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                    // What is wrong with a sentinel is told by who needs its answer.
                    let _ = attend(&service, at, &known, &mut before).await;
                    pause = AGAIN;
                }
            })
        };
        all.map(listen).collect()
    }
}

/// Listens to one sentinel until its connection fails. `before`: what it said last.
async fn attend(
    service: &Service,
    at: usize,
    known: &Known,
    before: &mut Option<Word>,
) -> Result<(), Fault> {
    let silent = |_| Fault::new("it was silent");
    let open = Sentinel::open(&service.sentinels[at]);
    let mut sentinel = timeout(service.connect_timeout(), open).await.map_err(silent)??;
    timeout(SILENCE, sentinel.listen()).await.map_err(silent)??;
    loop {
        // After it has begun to tell: nothing falls between.
        let word = timeout(SILENCE, sentinel.ask(&service.name)).await.map_err(silent)??;
        if let Some(word) = word {
            known.heard(before.as_ref(), &word);
            *before = Some(word);
        }
        sentinel.event(AGAIN).await?;
    }
}
