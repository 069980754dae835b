//! Deletes that were never confirmed: what the next connection must send before anything else.
//!
//! A delete is owed because nobody knows whether it was carried out: its vote may lie on the server for a whole
//! ttl, or arrive there later, and would keep everybody out. What was never sent is not owed: such debts would
//! push real ones out.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::in_flight::{Command, Purpose};
use crate::clock::Instant;

/// More debts than this are forgotten oldest first: the keys expire by themselves.
/// A client with a server that is away for long fills it; each is some hundred bytes.
const MOST: usize = 10_000;
/// So many votes that were never sent are remembered; the delete of a forgotten one is owed for nothing.
const MOST_UNSENT: usize = 32_768;

/// The longest delay between two attempts to carry out the pending deletes of an open connection, in chores.
const LONGEST_DELAY: u32 = 8;

/// When an open connection sends its pending deletes again: after 1, 2, 4 and 8 chores, then after every 8.
pub(super) struct Retry {
    delay: u32,
    left: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { delay: 1, left: 1 }
    }
}

impl Retry {
    /// Called once per chore.
    pub(super) fn is_due(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.delay = (2 * self.delay).min(LONGEST_DELAY);
        self.left = self.delay;
        true
    }
}

/// What one node's connections owe, across reconnects.
#[derive(Default)]
pub(super) struct Debts {
    /// By their own bytes: a claim is owed once, however often it was given up.
    owed: Recent<Vec<u8>, Command>,
    /// Tokens whose vote never went out: there is nothing to delete.
    /// Its delete comes behind the vote, and takes it off here.
    unsent: Recent<Arc<str>, ()>,
}

impl Debts {
    /// Whether nothing is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// This vote can have reached nobody.
    /// Not the second question for one: the first was sent.
    pub(super) fn never_sent(&mut self, command: &Command) {
        if let Purpose::FirstVote { token, sent: false } = &command.purpose {
            self.unsent.insert(MOST_UNSENT, Arc::clone(token), ());
        }
    }

    /// Whether this delete has nothing to do: its vote made no key.
    pub(super) fn forgives(&mut self, command: &Command) -> bool {
        let Purpose::Delete { token, .. } = &command.purpose else { return false };
        self.unsent.remove(token).is_some()
    }

    /// What is about to be written: a vote may put its token on a key from now on.
    pub(super) fn sending(&mut self, command: &Command) {
        // Looked at for each command, and nearly always empty.
        if !self.unsent.is_empty()
            && let Purpose::FirstVote { token, .. } | Purpose::Heal(token) = &command.purpose
        {
            self.unsent.remove(token);
        }
    }

    /// A delete whose answer was not read, or which could not be sent: owed until it is paid. Answers until when there can
    /// be something to delete.
    ///
    /// Without an end by time: a frozen server may run the vote whenever it wakes up. `until` counts only once
    /// the client is gone or shuts down, or where no connection may be killed.
    pub(super) fn owe(&mut self, mut command: Command, now: Instant) -> Option<Instant> {
        if self.forgives(&command) {
            return None;
        }
        let Purpose::Delete { owed, until, .. } = &mut command.purpose else { return None };
        // From when it was first owed: what is given up again and again is not owed for ever.
        let until = *until.get_or_insert(now + *owed);
        self.owed.insert(MOST, command.bytes.clone(), command);
        Some(until)
    }

    /// A delete that was paid, and is to be paid again: what it deletes may be made anew for as long after `opened`.
    pub(super) fn owe_again(&mut self, mut command: Command, opened: Instant) {
        if let Purpose::Delete { owed, until, .. } = &mut command.purpose {
            *until = Some(opened + *owed);
            self.owed.insert(MOST, command.bytes.clone(), command);
        }
    }

    /// Everything owed, to be owed again where it fails.
    pub(super) fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.owed).values().collect()
    }

    /// Forgets what must have expired, had nothing more arrived since it was owed.
    /// Without a client nobody would be left to pay for a late arrival.
    pub(super) fn forget_expired(&mut self, now: Instant) {
        self.owed.retain(|command| match command.purpose {
            Purpose::Delete { until, .. } => until.is_some_and(|until| until > now),
            _ => false,
        });
    }
}

/// A map that keeps a number of entries, and of more the newest.
struct Recent<K, V> {
    /// With the number under which each stands in `order`.
    entries: HashMap<K, (u64, V)>,
    /// The same entries by age; both maps always have the same keys.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As the newest; above so many the oldest goes.
    fn insert(&mut self, most: usize, key: K, value: V) {
        // What is put in again is the newest.
        self.remove(&key);
        if self.entries.len() >= most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, value));
        self.next += 1;
    }

    /// It is not owed any more.
    fn remove(&mut self, key: &K) -> Option<V> {
        let (at, value) = self.entries.remove(key)?;
        self.order.remove(&at);
        Some(value)
    }

    /// Oldest first.
    fn values(mut self) -> impl Iterator<Item = V> {
        let order = std::mem::take(&mut self.order);
        order.into_values().filter_map(move |key| self.entries.remove(&key).map(|(_, value)| value))
    }

    fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let Self { entries, order, .. } = self;
        entries.retain(|_, (at, value)| {
            let kept = keep(value);
            if !kept {
                order.remove(at);
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::redis::in_flight::Expects;

    const TTL: Duration = Duration::from_secs(10);

    fn command(bytes: &str, purpose: Purpose) -> Command {
        let (bytes, expects) = (bytes.to_owned().into(), Expects::Anything);
        Command { bytes, expects, purpose, timeout: TTL, untracked: false }
    }

    fn delete(token: &str) -> Command {
        command(token, Purpose::Delete { token: token.into(), owed: TTL, until: None })
    }

    fn vote(token: &str, sent: bool) -> Command {
        command("vote", Purpose::FirstVote { token: token.into(), sent })
    }

    fn owed(debts: &mut Debts) -> Vec<String> {
        let text = |command: Command| String::from_utf8(command.bytes).unwrap();
        debts.take().into_iter().map(text).collect()
    }

    #[test]
    fn a_claim_is_owed_once_and_only_if_it_was_sent() {
        let (mut debts, now) = (Debts::default(), Instant::from_start(TTL));
        debts.owe(delete("a"), now);
        debts.owe(delete("b"), now);
        debts.owe(delete("a"), now);
        debts.never_sent(&vote("unsent", false));
        debts.owe(delete("unsent"), now);
        debts.never_sent(&vote("asked twice", true));
        debts.owe(delete("asked twice"), now);
        debts.never_sent(&vote("healed", false));
        debts.sending(&command("heal", Purpose::Heal("healed".into())));
        debts.owe(delete("healed"), now);
        assert_eq!(owed(&mut debts), ["b", "a", "asked twice", "healed"]);
        assert!(debts.is_empty());
    }

    #[test]
    fn the_delay_between_retries_grows_up_to_its_limit() {
        let mut retry = Retry::default();
        let due: Vec<_> = (1..40).filter(|_| retry.is_due()).collect();
        assert_eq!(due, [1, 3, 7, 15, 23, 31, 39]);
    }

    #[test]
    fn of_too_many_the_oldest_is_forgotten_and_none_by_time_but_on_demand() {
        let (mut debts, now) = (Debts::default(), Instant::from_start(TTL));
        let owed = (0..=MOST).filter_map(|at| debts.owe(delete(&at.to_string()), now));
        assert_eq!(owed.last(), Some(now + TTL));
        let all = debts.take();
        assert_eq!((all.len(), &all[0].bytes[..]), (MOST, &b"1"[..]));
        // What failed to be paid is owed again, for as long as it was.
        debts.owe(all[0].clone(), now + TTL / 2);
        debts.forget_expired(now + TTL / 2);
        assert!(!debts.is_empty());
        debts.forget_expired(now + TTL);
        assert!(debts.is_empty());
    }
}
