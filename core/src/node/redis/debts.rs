//! Keeps the deletes without a confirmation. The next connection sends them before anything else.
//!
//! A delete stays pending because it is unknown whether the server ran it. Its vote may be on the server for a whole
//! TTL or arrive later, and would keep all clients out. The delete of a vote that was never sent is not kept, so that
//! it cannot displace others.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::in_flight::{Command, Purpose};
use crate::clock::Instant;

/// The maximum number of pending deletes. Beyond it the oldest are dropped, because their keys expire. A client reaches
/// it if a server is down for long.
const MOST: usize = 10_000;
/// The maximum number of unsent votes to remember. The delete of a forgotten one is kept needlessly.
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

/// The pending deletes of one node, across reconnects.
#[derive(Default)]
pub(super) struct Debts {
    /// By their encoded bytes, so that the delete of a claim is kept once.
    owed: Recent<Vec<u8>, Command>,
    /// The tokens of votes that were never sent, which have nothing to delete. The delete follows the vote and removes
    /// the token here.
    unsent: Recent<Arc<str>, ()>,
}

impl Debts {
    /// Whether no delete is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Records that a vote was never sent. This does not apply to the second command of a vote, because the first one
    /// was sent.
    pub(super) fn never_sent(&mut self, command: &Command) {
        if let Purpose::FirstVote { token, sent: false } = &command.purpose {
            self.unsent.insert(MOST_UNSENT, Arc::clone(token), ());
        }
    }

    /// Whether this delete is unnecessary, because its vote created no key.
    pub(super) fn forgives(&mut self, command: &Command) -> bool {
        let Purpose::Delete { token, .. } = &command.purpose else { return false };
        self.unsent.remove(token).is_some()
    }

    /// Called before a command is written. From then on, a vote may set its token on a key.
    pub(super) fn sending(&mut self, command: &Command) {
        // Checked first, because this runs for each command and is almost always empty.
        if !self.unsent.is_empty()
            && let Purpose::FirstVote { token, .. } | Purpose::Heal(token) = &command.purpose
        {
            self.unsent.remove(token);
        }
    }

    /// Keeps a delete whose reply was not read or that could not be sent. Returns until when its keys may exist.
    ///
    /// It is kept without a time limit, because a frozen server may run the vote at any time. `until` matters only
    /// after the client is gone or shuts down, or if the previous connection could not be closed.
    pub(super) fn owe(&mut self, mut command: Command, now: Instant) -> Option<Instant> {
        if self.forgives(&command) {
            return None;
        }
        let Purpose::Delete { owed, until, .. } = &mut command.purpose else { return None };
        // Measured from the first time, so that repeated failures do not extend it forever.
        let until = *until.get_or_insert(now + *owed);
        self.owed.insert(MOST, command.bytes.clone(), command);
        Some(until)
    }

    /// Keeps a delete that succeeded. A command of the previous connection may set its key again until this time after
    /// `opened`.
    pub(super) fn owe_again(&mut self, mut command: Command, opened: Instant) {
        if let Purpose::Delete { owed, until, .. } = &mut command.purpose {
            *until = Some(opened + *owed);
            self.owed.insert(MOST, command.bytes.clone(), command);
        }
    }

    /// Takes all pending deletes. Those that fail are added again.
    pub(super) fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.owed).values().collect()
    }

    /// Drops the deletes whose keys must have expired, unless a vote arrived later. After the client is gone, no
    /// connection remains that could delete the key of such a vote.
    pub(super) fn forget_expired(&mut self, now: Instant) {
        self.owed.retain(|command| match command.purpose {
            Purpose::Delete { until, .. } => until.is_some_and(|until| until > now),
            _ => false,
        });
    }
}

/// A map with a maximum number of entries, which drops the oldest.
struct Recent<K, V> {
    /// Each entry with its number in `order`.
    entries: HashMap<K, (u64, V)>,
    /// The same entries by age. Both maps always have the same keys.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Whether the map is empty.
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Inserts an entry as the newest. Drops the oldest one beyond the maximum.
    fn insert(&mut self, most: usize, key: K, value: V) {
        // A repeated entry becomes the newest.
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

    /// Removes an entry.
    fn remove(&mut self, key: &K) -> Option<V> {
        let (at, value) = self.entries.remove(key)?;
        self.order.remove(&at);
        Some(value)
    }

    /// Returns the values, oldest first.
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
    fn records_a_sent_claim_once() {
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
    fn retry_delay_grows_up_to_its_limit() {
        let mut retry = Retry::default();
        let due: Vec<_> = (1..40).filter(|_| retry.is_due()).collect();
        assert_eq!(due, [1, 3, 7, 15, 23, 31, 39]);
    }

    #[test]
    fn evicts_the_oldest_and_expires_only_on_demand() {
        let (mut debts, now) = (Debts::default(), Instant::from_start(TTL));
        let owed = (0..=MOST).filter_map(|at| debts.owe(delete(&at.to_string()), now));
        assert_eq!(owed.last(), Some(now + TTL));
        let all = debts.take();
        assert_eq!((all.len(), &all[0].bytes[..]), (MOST, &b"1"[..]));
        // A delete that fails again keeps its time limit.
        debts.owe(all[0].clone(), now + TTL / 2);
        debts.forget_expired(now + TTL / 2);
        assert!(!debts.is_empty());
        debts.forget_expired(now + TTL);
        assert!(debts.is_empty());
    }
}
