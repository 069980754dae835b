//! What is promised, checked after every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lease::Hold;
use crate::state::State;

use super::clock::{Rate, Time};
use super::scenario::Promise;
use super::world::MS;

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

/// How late a client that runs may be: what a step of virtual time can hide.
const LATE: Time = 25 * MS;

#[derive(Default)]
pub(super) struct Monitor {
    live: Vec<Record>,
    waiting: BTreeMap<u64, Waiting>,
    last_token: BTreeMap<&'static str, u64>,
    next: u64,
    pub(super) grants: usize,
    pub(super) violation: Option<String>,
    exclusion: bool,
    tokens: bool,
    pub(super) paused: Vec<Time>,
}

impl Monitor {
    pub(super) fn new(promise: Promise, clients: usize) -> Self {
        let exclusion = promise != Promise::TokensDespiteDeletes;
        let tokens = matches!(promise, Promise::Kept | Promise::TokensDespiteDeletes);
        Self { exclusion, tokens, paused: vec![0; clients], ..Self::default() }
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

    pub(super) fn granted(&mut self, client: usize, names: &[&'static str], hold: &Hold) {
        self.grants += 1;
        if !hold.held() {
            self.fail(format!("no validity: client {client} got {names:?} when its time was over"));
        }
        if let Ok(token) = hold.fencing_token() {
            for name in names {
                let last = self.last_token.insert(name, token).unwrap_or(0);
                if self.tokens && token <= last {
                    self.fail(format!(
                        "token not larger: {name} got {token} after {last}, by client {client}"
                    ));
                }
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
        if !self.exclusion {
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
