//! The scripts of a read/write lock as functions, command for command.
//!
//! A set of readers is stored as text, because the server model stores one text for each key. It has `token=end` for
//! each reader, separated by spaces.

use std::collections::BTreeMap;

use super::commands::{Call, When, int};
use super::resp::Reply;
use super::scripts::{acquire, is_kept, list, release};
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
fn open(call: &mut Call<'_>, turn: &str, side: char) {
    let stored = call.get(turn);
    let window = stored.as_deref().and_then(|stored| stored.strip_prefix(side));
    let Some(window) = window.map(|window| window.parse::<u64>().unwrap()) else { return };
    if call.pttl(turn) > i64::try_from(window).unwrap() {
        call.pexpire(turn, window, When::Always);
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
        if arguments[2] != "0" {
            call.set(turn, &format!("r{}", arguments[2]), call.ms() + 3000);
        }
        let left = call.pttl(key);
        let which = if is_kept(owner) { "1,k" } else { "1," };
        return list([Reply::Int(0), Reply::Int(left), Reply::bulk(which)], token);
    }
    let is_reader = owner.is_some() && readers(call.server.owner(set)).contains_key(token);
    if arguments[3] == "0" && stored.is_some_and(|side| side.starts_with('w')) && !is_reader {
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
    if owner.is_none() {
        open(call, turn, 'r');
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
    let [key, set, turn] = keys[..] else { panic!("{keys:?}") };
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
            open(call, turn, 'w');
        } else if call.pttl(key) > i64::try_from(last - now).unwrap() + 1100 {
            call.pexpire(key, last - now, When::Always);
        }
    }
    if is_ours { Reply::bulk(token) } else { list([Reply::Int(0)], token) }
}

pub(super) fn acquire_write(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let ([locks @ .., turn], [others @ .., window]) = (keys, arguments) else { panic!("{keys:?}") };
    let (owner, stored) = (call.get(locks[0]), call.get(turn));
    let is_readers_turn = stored.is_some_and(|side| side.starts_with('r'));
    if owner.is_none() && is_readers_turn {
        return turn_refusal(call, turn, others[0]);
    }
    if owner.is_some_and(|owner| is_shared(&owner)) && !is_readers_turn && *window != "0" {
        call.set(turn, &format!("w{window}"), call.ms() + 3000);
    }
    acquire(call, locks, others)
}

pub(super) fn release_write(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let [key, turn] = keys[..] else { panic!("{keys:?}") };
    let stays = arguments.get(1).is_some_and(|stay| *stay != "0");
    if call.get(key).as_deref() == Some(arguments[0]) && !stays {
        open(call, turn, 'r');
    }
    release(call, &[key], arguments)
}
