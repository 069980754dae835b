//! Merges the pending deletes of one set of keys into one command, which names the token of each claim.

use std::collections::HashSet;
use std::sync::Arc;

use crate::node::redis::commands::command::{Command, Expects, Purpose};
use crate::node::redis::commands::scripts::{Operation, Script, merged_release};

/// The memory of a pending delete in addition to its command, and that of a further token, in bytes.
const ENTRY_BYTES: usize = 512;
const TOKEN_BYTES: usize = 80;
/// The maximum number of earlier tokens in one delete. Beyond it, some between the oldest and the newest are dropped.
/// The oldest attempt whose delete was lost is the one that may have the key, because it refuses all later ones.
const MAX_EARLIER: usize = 255;
/// The same for readers, all of which may have had the lock. Lua passes fewer than 8,000 values to a function.
const MAX_READERS: usize = 2000;

/// Whether a lease had the keys of a delete.
pub(super) fn is_of_lease(command: &Command) -> bool {
    matches!(command.purpose, Purpose::Delete { of_lease: true, .. })
}

/// The memory that a pending delete takes. Its keys are stored twice.
pub(super) fn memory(command: &Command) -> usize {
    let earlier = match &command.purpose {
        Purpose::Delete { earlier, .. } => earlier.len(),
        _ => 0,
    };
    2 * command.bytes.len() + ENTRY_BYTES + TOKEN_BYTES * earlier
}

/// Returns the keys of a delete that leaves nothing behind. `None` for one that only limits their TTL.
pub(super) fn deleted_keys(command: &Command) -> Option<Vec<&[u8]>> {
    let Purpose::Delete { earlier, .. } = &command.purpose else { return None };
    let mut words = command.words();
    if !matches!(words.next()?, b"EVALSHA" | b"EVAL") {
        return None;
    }
    let count = std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
    let mut keys: Vec<_> = words.collect();
    let arguments = keys.len().checked_sub(count)?;
    keys.truncate(count);
    (arguments == 1 || !earlier.is_empty()).then_some(keys)
}

/// Returns what identifies a pending delete: its keys, or the whole command if it cannot be merged with others.
pub(super) fn target(command: &Command) -> Vec<u8> {
    let Some(keys) = deleted_keys(command) else { return command.bytes.clone() };
    // With their lengths, so that no two sets of keys are the same.
    keys.iter()
        .flat_map(|key| key.len().to_le_bytes().into_iter().chain(key.iter().copied()))
        .collect()
}

/// Merges a delete with an earlier one of the same keys. The token of the lease that expires last is
/// never dropped.
pub(super) fn merged(first: &Command, last: Command) -> Command {
    let (is_lease, both) = (is_of_lease(first), (first.purpose.clone(), last.purpose.clone()));
    let (
        Purpose::Delete { token, earlier, lifetime, until, of_lease },
        Purpose::Delete { token: other, earlier: more, lifetime: long, until: end, of_lease: too },
    ) = both
    else {
        return last;
    };
    // Of two leases, the one that expires last.
    let keeps_first = is_lease && (!too || until > end);
    let (main, added) = if keeps_first { (token, other) } else { (other, token) };
    let mut earlier = earlier.into_vec();
    let mut known: HashSet<Arc<str>> = earlier.iter().cloned().chain([Arc::clone(&main)]).collect();
    earlier.extend(more.into_iter().chain([added]).filter(|token| known.insert(Arc::clone(token))));
    let most = match Script::called_by(&last) {
        Some(script) if script.operation == Operation::ReleaseRead => MAX_READERS,
        _ => MAX_EARLIER,
    };
    if let Some(excess) = earlier.len().checked_sub(most) {
        earlier.drain(most / 2..most / 2 + excess);
    }
    let (lifetime, until, of_lease) = (lifetime.max(long), until.max(end), of_lease || too);
    let newest = Command { untracked: first.untracked || last.untracked, ..last };
    let keys = deleted_keys(&newest).filter(|_| !earlier.is_empty());
    let Some((script, keys)) = Script::called_by(&newest).zip(keys) else {
        return newest;
    };
    let bytes = merged_release(script, &keys, &main, &earlier);
    let expects = Expects::Token(Arc::clone(&main));
    let earlier = earlier.into();
    let purpose = Purpose::Delete { token: main, earlier, lifetime, until, of_lease };
    Command { bytes, expects, purpose, combinable: None, ..newest }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Instant;
    use crate::node::redis::commands::scripts::{self as commands, release_script};
    use crate::node::{Claim, Form, ReleaseMode, Sides};

    const TTL: Duration = Duration::from_secs(10);

    /// The delete of a failed vote, or of a lease.
    pub(crate) fn release(key: &str, token: &str, of_lease: bool) -> Command {
        let claim = Claim::of_owner(format!("{token:->32}").into(), [key.to_owned()].into());
        let mut command = release_script(&claim, TTL, None);
        if let Purpose::Delete { of_lease: of, .. } = &mut command.purpose {
            *of = of_lease;
        }
        command
    }

    pub(crate) fn tokens(command: &Command) -> Vec<&str> {
        let Purpose::Delete { token, earlier, .. } = &command.purpose else { unreachable!() };
        [token].into_iter().chain(&**earlier).map(|token| token.trim_start_matches('-')).collect()
    }

    fn pending(key: &str, token: &str, of_lease: bool, end: u64) -> Command {
        let mut command = release(key, token, of_lease);
        if let Purpose::Delete { until, .. } = &mut command.purpose {
            *until = Some(Instant::from_start(Duration::from_secs(end)));
        }
        command
    }

    fn until_second(command: &Command) -> Option<u64> {
        command.purpose.until().map(|until| until.since(Instant::default()).as_secs())
    }

    #[test]
    fn deletes_of_one_set_of_keys_are_merged() {
        let attempts = [("first", 20), ("second", 30), ("first", 20)];
        let attempts = attempts.map(|(token, end)| pending("a", token, false, end));
        let all = attempts
            .into_iter()
            .fold(pending("a", "lease", true, 10), |all, next| merged(&all, next));
        assert_eq!(
            (tokens(&all), until_second(&all)),
            (vec!["lease", "first", "second"], Some(30))
        );
        let words: Vec<_> = all.words().skip(2).collect();
        let padded = |token: &str| format!("{token:->32}").into_bytes();
        let [lease, first, second] = ["lease", "first", "second"].map(padded);
        assert_eq!(words, [&b"1"[..], b"a", &lease, b"0", &first, &second]);
        assert_eq!(target(&all), target(&release("a", "other", false)));
        // Neither the lease is dropped, nor the oldest and the newest attempts.
        let all =
            (0..500).fold(all, |all, at| merged(&all, pending("a", &at.to_string(), false, 10)));
        let tokens_of_all = tokens(&all);
        assert_eq!(tokens_of_all.len(), MAX_EARLIER + 1);
        assert_eq!(tokens_of_all[..4], ["lease", "first", "second", "0"]);
        assert_eq!(tokens_of_all.last(), Some(&"499"));
        let released = merged(&pending("a", "attempt", false, 10), pending("a", "lease", true, 10));
        assert!(is_of_lease(&released));
        assert_eq!(tokens(&released), ["lease", "attempt"]);
    }

    #[test]
    fn deletes_of_readers_are_merged() {
        let keys: Arc<[String]> = Arc::from(["a".to_owned()]);
        let sides = Arc::new(Sides { readers: "{a}:readers".into(), turn: "{a}:turn".into() });
        let [first, last] = ["first", "last"].map(|token| {
            let claim = Claim::of_owner(token.into(), Arc::clone(&keys));
            let claim = Claim { form: Form::Read(Arc::clone(&sides)), ..claim };
            commands::release(&claim, TTL, ReleaseMode::Undo)
        });
        assert_eq!(target(&first), target(&last));
        assert_ne!(target(&first), target(&release("a", "other", false)));
        let both = merged(&first, last);
        let digest = &commands::script(Operation::ReleaseRead).digest;
        let words: Vec<_> = both.words().collect();
        let expected = ["EVALSHA", digest, "2", "a", "{a}:readers", "last", "0", "first"];
        assert_eq!(words, expected.map(str::as_bytes));
        // Unlike attempts, all of many readers may have had the lock.
        let all = (0..500).fold(both, |all, at| {
            let claim = Claim::of_owner(at.to_string().into(), Arc::clone(&keys));
            let claim = Claim { form: Form::Read(Arc::clone(&sides)), ..claim };
            merged(&all, commands::release(&claim, TTL, ReleaseMode::Delete))
        });
        assert_eq!(tokens(&all).len(), 502);
    }

    #[test]
    fn deletes_of_other_keys_and_of_keys_that_remain_are_separate() {
        let claim = |keys: &[&str]| {
            let keys = keys.iter().map(ToString::to_string).collect();
            Claim::of_owner("token".into(), keys)
        };
        let mut targets = vec![target(&release_script(&claim(&["a"]), TTL, Some((TTL, false))))];
        for keys in [&["a"][..], &["b"], &["a", "b"], &["ab"], &["b", "a"]] {
            targets.push(target(&release_script(&claim(keys), TTL, None)));
        }
        assert_eq!(targets.iter().collect::<HashSet<_>>().len(), targets.len());
    }
}
