//! What is promised, checked after every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lease::Hold;
use crate::state::State;

use super::clock::{Rate, Time};
use super::scenario::Promise;
use super::world::MS;

/// The largest token of each name that was handed out so far.
pub(super) type Tokens = BTreeMap<&'static str, u64>;

struct Record {
    client: usize,
    names: Vec<&'static str>,
    state: Arc<State>,
    told: bool,
    over_since: Option<Time>,
}

struct Waiting {
    client: usize,
    due: Time,
    paused: Time,
}

/// A lease that is valid now.
pub(super) struct Valid {
    pub(super) token: String,
    /// Whether it still is at a later time, unless it is extended.
    pub(super) at: Box<dyn Fn(Time) -> bool>,
}

/// How late a client that runs may be: what a step of virtual time can hide.
const LATE: Time = 25 * MS;

#[derive(Default)]
pub(super) struct Monitor {
    live: Vec<Record>,
    waiting: BTreeMap<u64, Waiting>,
    last_token: Tokens,
    next: u64,
    pub(super) grants: usize,
    pub(super) violation: Option<String>,
    promise: Option<Promise>,
    pub(super) paused: Vec<Time>,
}

impl Monitor {
    pub(super) fn new(promise: Promise, clients: usize) -> Self {
        Self { promise: Some(promise), paused: vec![0; clients], ..Self::default() }
    }

    fn fail(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    pub(super) fn begins(&mut self, client: usize, due: Option<Time>) -> u64 {
        self.next += 1;
        if let Some(due) = due {
            let paused = self.paused[client];
            self.waiting.insert(self.next, Waiting { client, due, paused });
        }
        self.next
    }

    pub(super) fn ends(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    pub(super) fn tokens(&self) -> Tokens {
        self.last_token.clone()
    }

    pub(super) fn stuck(&mut self, client: usize) {
        self.fail(format!("stuck: client {client} got no lock that was free"));
    }

    /// What a token must be larger than: those of all leases before it. Where a second holder can be, only of
    /// those that were there `before` its acquire began: which of two at once is the later one nobody can say.
    fn exceeded(&self, name: &str, before: &Tokens) -> Option<u64> {
        match self.promise {
            Some(Promise::Kept) => self.last_token.get(name).copied(),
            Some(Promise::TokensDespiteDeletes) => before.get(name).copied(),
            _ => None,
        }
    }

    pub(super) fn granted(
        &mut self,
        client: usize,
        names: &[&'static str],
        hold: &Hold,
        before: &Tokens,
    ) {
        self.grants += 1;
        if !hold.held() {
            self.fail(format!("no validity: client {client} got {names:?} when its time was over"));
        }
        if let Ok(token) = hold.fencing_token() {
            for name in names {
                if let Some(last) = self.exceeded(name, before).filter(|last| token <= *last) {
                    self.fail(format!(
                        "token not larger: {name} got {token} after {last}, by client {client}"
                    ));
                }
                let largest = self.last_token.entry(name).or_default();
                *largest = token.max(*largest);
            }
        }
        let (names, state) = (names.to_vec(), Arc::clone(&hold.0));
        self.live.push(Record { client, names, state, told: false, over_since: None });
    }

    pub(super) fn told(&mut self, hold: &Hold) {
        for record in self.live.iter_mut().filter(|record| Arc::ptr_eq(&record.state, &hold.0)) {
            record.told = true;
        }
    }

    /// Leases that are valid at `now`, by what clients know: their tokens, and until when.
    pub(super) fn valid(&self, now: Time, clocks: &[Rate]) -> Vec<Valid> {
        let records = self.live.iter().map(|record| {
            let (state, rate) = (Arc::clone(&record.state), clocks[record.client]);
            let token = state.terms.claim.token.to_string();
            Valid { token, at: Box::new(move |time| state.valid_at(rate.local(time))) }
        });
        records.filter(|valid| (valid.at)(now)).collect()
    }

    pub(super) fn client_gone(&mut self, client: usize) {
        self.live.retain(|record| record.client != client);
        self.waiting.retain(|_, waiting| waiting.client != client);
    }

    pub(super) fn check(&mut self, now: Time, clocks: &[Rate], runs: impl Fn(usize) -> bool) {
        let mut holders: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut failures = Vec::new();
        for record in &mut self.live {
            if record.state.valid_at(clocks[record.client].local(now)) {
                for name in &record.names {
                    if let Some(other) = holders.insert(name, record.client) {
                        failures.push(format!(
                            "two holders: {name} by clients {other} and {}",
                            record.client
                        ));
                    }
                }
                continue;
            }
            if !runs(record.client) {
                record.over_since = None;
                continue;
            }
            let since = *record.over_since.get_or_insert(now);
            if record.state.ended() != Some(false) && !record.told && now > since + LATE {
                failures
                    .push(format!("loss not told: {:?} to client {}", record.names, record.client));
            }
        }
        if matches!(self.promise, Some(Promise::TokensDespiteDeletes | Promise::FreedByForce)) {
            failures.retain(|failure| !failure.starts_with("two holders"));
        }
        self.live.retain(|record| {
            record.over_since.is_none() || !record.told && record.state.ended() != Some(false)
        });
        for waiting in self.waiting.values() {
            let allowance = self.paused[waiting.client] - waiting.paused + LATE;
            if runs(waiting.client) && now > waiting.due + allowance {
                failures.push(format!(
                    "late: an acquire of client {} outlived its wait",
                    waiting.client
                ));
            }
        }
        if let Some(first) = failures.into_iter().next() {
            self.fail(first);
        }
    }
}
