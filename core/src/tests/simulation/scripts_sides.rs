//! The scripts of a read/write lock as functions, command for command.
//!
//! A set of readers is stored as text, because the server model stores one text for each key. It has `token=end` for
//! each reader, separated by spaces.

use std::collections::BTreeMap;

use super::commands::{Call, When, int};
use super::resp::Reply;
use super::scripts::{acquire, is_kept, list};
use super::server::NO_END;
use crate::node::SHARED_PREFIX;

/// The readers of a set, with their ends in ms. None if the key has another type.
pub(super) fn readers(stored: Option<&str>) -> BTreeMap<String, u64> {
    let one = |word: &str| word.split_once('=').map(|(token, end)| (token.to_owned(), int(end)));
    stored.unwrap_or_default().split_whitespace().filter_map(one).collect()
}

pub(super) fn is_shared(owner: &str) -> bool {
    owner.starts_with(SHARED_PREFIX)
}

/// Changes a set. An empty one does not exist.
fn change(call: &mut Call<'_>, key: &str, edit: impl FnOnce(&mut BTreeMap<String, u64>)) {
    let before = readers(call.server.owner(key));
    let mut after = before.clone();
    edit(&mut after);
    if after.is_empty() {
        call.del(&[key]);
    } else if after != before {
        let end = call.server.keys.get(key).map_or(NO_END, |(_, end)| *end);
        let words: Vec<String> =
            after.iter().map(|(token, end)| format!("{token}={end}")).collect();
        call.set(key, &words.join(" "), end);
    }
}

/// The function `open`.
fn open(call: &mut Call<'_>, turn: &str, stored: &str) {
    let window = int(&stored[1..]);
    if call.pttl(turn) > i64::try_from(window).unwrap() {
        call.pexpire(turn, window, When::Always);
    }
}

/// The function `set_turn`.
fn set_turn(call: &mut Call<'_>, turn: &str, stored: Option<&String>, value: &str, lasts: u64) {
    let is_same = stored.is_some_and(|stored| stored[..1] == value[..1]);
    if !is_same || call.pttl(turn) < i64::try_from(lasts).unwrap() {
        call.set(turn, value, call.ms() + lasts);
    }
}

fn turn_refusal(call: &mut Call<'_>, turn: &str, token: &str) -> Reply {
    let left = call.pttl(turn);
    list([Reply::Int(0), Reply::Int(left), Reply::bulk("1,t")], token)
}

/// The TTL of a lock key that readers share, for a reader with this TTL.
fn with_slack(ttl: u64) -> u64 {
    ttl + (ttl / 10).min(1000)
}

pub(super) fn acquire_read(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let [key, set, turn] = keys[..] else { panic!("{keys:?}") };
    let (token, ttl) = (arguments[0], int(arguments[1]));
    let (owner, stored) = (call.get(key), call.get(turn));
    if let Some(owner) = owner.as_ref().filter(|owner| !is_shared(owner)) {
        if arguments[3] != "0" {
            let value = format!("r{}", arguments[3]);
            set_turn(call, turn, stored.as_ref(), &value, int(arguments[4]));
        }
        let left = call.pttl(key);
        let which = if is_kept(owner) { "1,k" } else { "1," };
        return list([Reply::Int(0), Reply::Int(left), Reply::bulk(which)], token);
    }
    let is_reader = owner.is_some() && readers(call.server.owner(set)).contains_key(token);
    let is_writers =
        |turn: &&String| turn.starts_with('w') || turn.starts_with('b') && owner.is_none();
    let writers_turn = stored.as_ref().filter(is_writers);
    if let Some(stored) = writers_turn.filter(|_| arguments[2] == "0" && !is_reader) {
        if owner.is_none() {
            open(call, turn, stored);
        }
        return turn_refusal(call, turn, token);
    }
    let now = call.ms();
    change(call, set, |readers| readers.retain(|_, end| owner.is_some() && *end > now));
    change(call, set, |readers| {
        let end = readers.entry(token.to_owned()).or_default();
        *end = (*end).max(now + ttl);
    });
    let left = owner.as_ref().map_or(0, |_| call.pttl(key));
    let mut left = u64::try_from(left).unwrap_or_default();
    if left < ttl {
        left = with_slack(ttl);
        let value = owner.clone().unwrap_or_else(|| format!("{SHARED_PREFIX}{token}"));
        call.set(key, &value, now + left);
    }
    call.pexpire(set, left, When::Always);
    if let Some(window) = stored.as_ref().and_then(|stored| stored.strip_prefix('r'))
        && owner.is_none()
    {
        call.set(turn, &format!("s{window}"), now + int(window));
    }
    call.pttl(key);
    Reply::bulk(token)
}

pub(super) fn extend_read(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let [key, set] = keys[..] else { panic!("{keys:?}") };
    let (token, ttl) = (arguments[0], int(arguments[1]));
    match call.get(key) {
        Some(owner) if is_shared(&owner) => {}
        Some(owner) if !is_kept(&owner) => return list([Reply::Int(-1)], token),
        _ => return list([Reply::Int(0)], token),
    }
    let now = call.ms();
    if !readers(call.server.owner(set)).contains_key(token) {
        return list([Reply::Int(0)], token);
    }
    change(call, set, |readers| {
        readers.entry(token.to_owned()).and_modify(|end| *end = (*end).max(now + ttl));
    });
    let mut left = u64::try_from(call.pttl(key)).unwrap_or_default();
    if left < ttl {
        left = with_slack(ttl);
        call.pexpire(key, left, When::Always);
    }
    call.pexpire(set, left, When::Always);
    call.pttl(key);
    Reply::bulk(token)
}

pub(super) fn release_read(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let [key, set] = keys[..] else { panic!("{keys:?}") };
    let (token, earlier) = (arguments[0], arguments.get(2..).unwrap_or_default());
    let owner = call.get(key);
    let is_ours = readers(call.server.owner(set)).contains_key(token);
    change(call, set, |readers| {
        readers.retain(|reader, _| reader != token && !earlier.contains(&&**reader));
    });
    if owner.is_some_and(|owner| is_shared(&owner)) {
        let now = call.ms();
        let last = readers(call.server.owner(set)).into_values().max().unwrap_or_default();
        if last <= now {
            call.del(&[key, set]);
        } else if call.pttl(key) > i64::try_from(last - now).unwrap() + 1100 {
            call.pexpire(key, last - now, When::Always);
        }
    }
    if is_ours { Reply::bulk(token) } else { list([Reply::Int(0)], token) }
}

pub(super) fn acquire_write(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let ([locks @ .., turn], [others @ .., window, lasts]) = (keys, arguments) else {
        panic!("{keys:?}")
    };
    let (owner, stored) = (call.get(locks[0]), call.get(turn));
    let is_shared = owner.as_ref().is_some_and(|owner| is_shared(owner));
    let waits = is_shared && *window != "0";
    let side = stored.as_ref().and_then(|stored| stored.chars().next()).unwrap_or('-');
    if let Some(stored) = stored.as_ref().filter(|_| waits && side == 's') {
        let end = call.server.keys[*turn].1;
        call.set(turn, &stored.replace('s', "b"), end);
    }
    if owner.is_none() && side == 'r' || waits && "rsb".contains(side) {
        if let Some(stored) = stored.as_ref().filter(|_| side == 'r') {
            open(call, turn, stored);
        }
        return turn_refusal(call, turn, others[0]);
    }
    if waits {
        set_turn(call, turn, stored.as_ref(), &format!("w{window}"), int(lasts));
    }
    if owner.is_none() && stored.is_some() {
        call.del(&[turn]);
    }
    acquire(call, locks, others)
}
