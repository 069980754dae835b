//! Checks the promises about leases after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::nanos;
use crate::error::LossReason;
use crate::lease::{LeaseHandle, LeaseState};
use crate::node::Form;
use crate::quorum::AFTER_BLOCK;

use super::action::Use;
use super::clock::{Rate, Time};
use super::progress::{CHECK_INTERVAL, Sound, Waiting};
use super::record::{MAX_DELAY, Record, Valid, ended, valid_at};
use super::scenario::Promise;
use super::world::{MS, World};

/// The largest token of each name that was issued so far.
pub(super) type Tokens = BTreeMap<&'static str, u64>;

#[derive(Default)]
pub(super) struct Monitor {
    pub(super) live: Vec<Record>,
    /// Leases whose keys stay after a release: their client, their names and their state.
    pub(super) staying: Vec<(usize, Vec<&'static str>, Arc<LeaseState>)>,
    /// The tokens of the leases whose release a quorum confirmed.
    pub(super) confirmed: BTreeSet<String>,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// Tokens that another client will continue, with their current client.
    pub(super) hands_over: BTreeMap<String, usize>,
    last_token: Tokens,
    next: u64,
    pub(super) grants: usize,
    /// When each name was last acquired.
    pub(super) granted_at: BTreeMap<&'static str, Time>,
    pub(super) violation: Option<String>,
    pub(super) promise: Option<Promise>,
    pub(super) clocks: Vec<Rate>,
    /// Total pause of each client so far, and the end of its last pause.
    pub(super) paused: Vec<Time>,
    pub(super) paused_until: Vec<Time>,
}

impl Monitor {
    pub(super) fn new(promise: Promise, clocks: &[Rate]) -> Self {
        let (paused, paused_until) = (vec![0; clocks.len()], vec![0; clocks.len()]);
        let clocks = clocks.to_vec();
        Self { promise: Some(promise), clocks, paused, paused_until, ..Self::default() }
    }

    /// Records the first violation. The environment variable EXCEPT lists kinds of violations to ignore.
    pub(super) fn fail(&mut self, text: String) {
        let kinds = std::env::var("EXCEPT").unwrap_or_default();
        if !kinds.split(',').any(|kind| !kind.is_empty() && text.starts_with(kind)) {
            self.violation.get_or_insert(text);
        }
    }

    pub(super) fn pause(&mut self, client: usize, now: Time, until: Time) {
        let before = self.paused_until[client].max(now);
        self.paused_until[client] = before.max(until);
        self.paused[client] += until.saturating_sub(before);
    }

    pub(super) fn begins(&mut self, client: usize, how: &Use, times: (Time, Option<Time>)) -> u64 {
        self.next += 1;
        let paused = self.paused[client];
        self.waiting.insert(self.next, Waiting::new(client, how, times, paused));
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

    pub(super) fn gave_up(&mut self, client: usize) {
        self.fail(format!("gave up: an acquire of client {client} ended before its wait"));
    }

    /// Returns the largest earlier token, which a new one must exceed. If a second holder is possible, only tokens from
    /// `before` the acquire began count, because two simultaneous leases have no order.
    fn exceeded(&self, name: &str, before: &Tokens) -> Option<u64> {
        match self.promise {
            Some(promise) if promise.is_all() => self.last_token.get(name).copied(),
            Some(Promise::TokensDespiteDeletes) => before.get(name).copied(),
            _ => None,
        }
    }

    /// Records that an acquire or an attach received this lease at `now`, and checks the promises about it.
    pub(super) fn granted(
        &mut self,
        client: usize,
        how: &Use,
        hold: &LeaseHandle,
        before: &Tokens,
        now: Time,
    ) {
        self.grants += 1;
        let names = how.keys_of(hold);
        if !hold.is_held() {
            self.fail(format!("no validity: client {client} got {names:?} when its time was over"));
        }
        self.check_notified(client, &names, hold, now);
        self.check_min_hold(client, &names, hold, now);
        if let Ok(token) = hold.fencing_token() {
            for name in &names {
                if let Some(last) = self.exceeded(name, before).filter(|last| token <= *last) {
                    self.fail(format!(
                        "token not larger: {name} got {token} after {last}, by client {client}"
                    ));
                }
                let largest = self.last_token.entry(name).or_default();
                *largest = token.max(*largest);
            }
        }
        self.granted_at.extend(names.iter().map(|name| (*name, now)));
        let hold_end = how.max_hold.map(|max_hold| now + max_hold * MS * 101 / 100 + MAX_DELAY);
        self.live.push(Record {
            client,
            names,
            state: Arc::clone(&hold.0),
            notified: false,
            given_up: false,
            over_since: None,
            hold_end,
            deleted: None,
            sound: Sound::for_use(how),
        });
    }

    /// Checks that every earlier holder of one of these names was notified before `now`, unless its client is paused.
    fn check_notified(&mut self, client: usize, names: &[&str], hold: &LeaseHandle, now: Time) {
        if !self.promise.is_some_and(Promise::is_all) {
            return;
        }
        let late = self.live.iter().find(|record| {
            record.names.iter().any(|name| names.contains(name))
                && record.state.claim.token != hold.0.claim.token
                && !(record.is_reader() && matches!(hold.0.claim.form, Form::Read(_)))
                && !valid_at(&record.state, self.clocks[record.client].local(now))
                && !record.notified
                && ended(&record.state) != Some(false)
                && now > self.paused_until[record.client]
        });
        if let Some(Record { client: other, .. }) = late {
            self.fail(format!(
                "reported late: client {client} has {names:?}, client {other} not notified"
            ));
        }
    }

    /// Records that a holder was notified of a loss. The loss must have been necessary.
    pub(super) fn notified(
        &mut self,
        hold: &LeaseHandle,
        reason: Option<LossReason>,
        world: &World,
    ) {
        let mut needless = None;
        for record in self.live.iter_mut().filter(|record| Arc::ptr_eq(&record.state, &hold.0)) {
            record.notified = true;
            // A client that was paused since the last check may have missed a renewal.
            let rested = world.now >= self.paused_until[record.client] + CHECK_INTERVAL;
            if rested && reason == Some(LossReason::Expired) && record.is_sound(world) {
                needless = Some(format!(
                    "lost needlessly: {:?} of client {}, which a quorum had all the time",
                    record.names, record.client
                ));
            }
        }
        needless.into_iter().for_each(|text| self.fail(text));
    }

    /// Records that the holder itself ends this lease.
    pub(super) fn gives_up(&mut self, hold: &LeaseHandle) {
        let mine = |record: &&mut Record| Arc::ptr_eq(&record.state, &hold.0);
        self.live.iter_mut().filter(mine).for_each(|record| record.given_up = true);
    }

    /// An administrator deletes the keys of a name on every running node. Its holder is notified by `due`.
    pub(super) fn deleted(&mut self, name: &str, due: Time, runs: impl Fn(&Record) -> bool) {
        for record in self.live.iter_mut().filter(|record| record.names.contains(&name)) {
            if record.over_since.is_none() && runs(record) {
                record.deleted.get_or_insert(due);
            }
        }
    }

    /// The leases that are valid at `now` according to their clients: their tokens and expiry times.
    pub(super) fn valid(&self, now: Time) -> Vec<Valid> {
        let records = self.live.iter().map(|record| {
            let (state, rate) = (Arc::clone(&record.state), self.clocks[record.client]);
            let token = state.claim.token.to_string();
            Valid { token, at: Box::new(move |time| valid_at(&state, rate.local(time))) }
        });
        records.filter(|valid| (valid.at)(now)).collect()
    }

    pub(super) fn shut_down(&mut self, client: usize, now: Time) {
        let local = self.clocks[client].local(now);
        let holds = |record: &Record| record.client == client && valid_at(&record.state, local);
        let waits = self.waiting.values().any(|waiting| waiting.client == client);
        if waits || self.live.iter().any(holds) {
            self.fail(format!("not shut down: client {client} holds or waits"));
        }
    }

    pub(super) fn client_gone(&mut self, client: usize) {
        self.live.retain(|record| record.client != client);
        self.waiting.retain(|_, waiting| waiting.client != client);
    }

    pub(super) fn check(&mut self, now: Time, runs: impl Fn(usize) -> bool) {
        let mut holders: BTreeMap<&'static str, (usize, &str, bool)> = BTreeMap::new();
        let mut failures = Vec::new();
        for record in &mut self.live {
            if valid_at(&record.state, self.clocks[record.client].local(now)) {
                let token = &*record.state.claim.token;
                for name in &record.names {
                    let reads = record.is_reader();
                    let other = holders.insert(name, (record.client, token, reads));
                    let differ = |(_, others, read): &_| *others != token && !(reads && *read);
                    if let Some((other, ..)) = other.filter(differ) {
                        let client = record.client;
                        failures
                            .push(format!("two holders: {name} by clients {other} and {client}"));
                    }
                }
                failures.extend(record.overdue(now, runs(record.client)));
            } else {
                failures.extend(record.unreported(now, runs(record.client)));
            }
        }
        if matches!(self.promise, Some(Promise::TokensDespiteDeletes | Promise::ForceReleased)) {
            failures.retain(|failure| !failure.starts_with("two holders"));
        }
        self.live.retain(|record| {
            record.over_since.is_none() || !record.notified && ended(&record.state) != Some(false)
        });
        for waiting in self.waiting.values() {
            let paused = self.paused[waiting.client] - waiting.paused;
            let reads_on = if paused > 0 { nanos(AFTER_BLOCK) } else { 0 };
            let allowance = paused + reads_on + MAX_DELAY;
            if runs(waiting.client) && waiting.due.is_some_and(|due| now > due + allowance) {
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
