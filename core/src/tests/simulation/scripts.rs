//! The scripts of `core/src/node/redis/commands/lua` as functions, command for command.
//!
//! A test compares them with the scripts in a real server ([`super::real_server`]).

use std::collections::BTreeMap;

use crate::node::{KEPT_PREFIX, Operation, script};

use super::commands::{Call, When, int};
use super::resp::Reply;
use super::scripts_sides::{self, is_shared};
use super::server::NO_END;

/// Runs a script.
pub(super) fn run(
    call: &mut Call<'_>,
    operation: Operation,
    keys: &[&str],
    arguments: &[&str],
) -> Reply {
    let script = match operation {
        Operation::Acquire => acquire,
        Operation::Extend => extend,
        Operation::ExtendMany => extend_many,
        Operation::Release => release,
        Operation::ReleaseMany => release_many,
        Operation::Inspect => inspect,
        Operation::AcquireSlots => acquire_slots,
        Operation::AcquireRead => scripts_sides::acquire_read,
        Operation::ExtendRead => scripts_sides::extend_read,
        Operation::ReleaseRead => scripts_sides::release_read,
        Operation::AcquireWrite => scripts_sides::acquire_write,
        Operation::Keys => panic!("no simulated client lists locks"),
    };
    script(call, keys, arguments)
}

/// Whether the script with this digest changes data.
pub(super) fn writes(digest: &str) -> bool {
    script(Operation::Inspect).digest != digest
}

/// Whether the call with this digest deletes keys.
pub(super) fn deletes(digest: &str) -> bool {
    let deletes = [Operation::Release, Operation::ReleaseMany, Operation::ReleaseRead];
    deletes.iter().any(|operation| script(*operation).digest == digest)
}

/// A result that ends with the token.
pub(super) fn list(parts: impl IntoIterator<Item = Reply>, token: &str) -> Reply {
    Reply::List(parts.into_iter().chain([Reply::bulk(token)]).collect())
}

pub(super) fn is_kept(owner: &str) -> bool {
    owner.starts_with(KEPT_PREFIX)
}

/// The function `track`: reads the keys.
fn track(call: &mut Call<'_>, keys: &[&str]) {
    for key in keys {
        call.pttl(key);
    }
}

/// The function `rewrite`.
fn rewrite(call: &mut Call<'_>, key: &str) {
    let left = call.pttl(key);
    call.pexpire(key, u64::try_from(left).unwrap(), When::Always);
}

/// The function `kept`: a fencing token, or `None` if no client can have stored it.
fn kept(stored: Option<&str>, most: u64) -> Option<u64> {
    let fence = stored.unwrap_or("0").parse::<u64>().ok()?;
    (fence <= most).then_some(fence)
}

pub(super) fn acquire(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let (token, ttl) = (arguments[0], int(arguments[1]));
    if let [key] = keys
        && call.server.owner(key).is_none()
    {
        call.set(key, token, call.ms() + ttl);
        call.pttl(key);
        return Reply::bulk(token);
    }
    let fencing = arguments.len() > 2;
    let (locks, fences) = keys.split_at(if fencing { keys.len() / 2 } else { keys.len() });
    let owners = call.values(locks);
    if let Some(refusal) = refused(call, locks, &owners, token) {
        return refusal;
    }
    let fence = match fencing.then(|| fence(call, fences, arguments)).transpose() {
        Ok(fence) => fence,
        Err(error) => return error,
    };
    let mut set = false;
    for (key, owner) in locks.iter().zip(owners) {
        if owner.is_none() || call.pttl(key) < i64::try_from(ttl).unwrap() {
            call.set(key, token, call.ms() + ttl);
            set = true;
        }
    }
    if !set {
        rewrite(call, keys[0]);
    }
    track(call, locks);
    match fence {
        Some(fence) => list(
            [Reply::Int(1), Reply::Int(ttl.try_into().unwrap()), Reply::bulk(fence.to_string())],
            token,
        ),
        None => Reply::bulk(token),
    }
}

/// The reply of `acquire` if another owner has some of the keys.
fn refused(
    call: &mut Call<'_>,
    locks: &[&str],
    owners: &[Option<String>],
    token: &str,
) -> Option<Reply> {
    let (mut left, mut which, mut stays) = (None, String::new(), "k");
    let (mut asked, mut holder) = (BTreeMap::new(), "");
    for (at, (key, owner)) in locks.iter().zip(owners).enumerate() {
        let Some(owner) = owner.as_ref().filter(|owner| *owner != token) else { continue };
        which += &format!("{},", at + 1);
        if !is_kept(owner) {
            stays = "";
        }
        // The keys of one owner expire together.
        let its = *asked.entry(owner).or_insert_with(|| call.pttl(key));
        let longer = |left: i64| its == -1 || left != -1 && its > left;
        if left.is_none_or(longer) {
            (left, holder) = (Some(its), owner);
        }
    }
    if is_shared(holder) {
        which.push('s');
    }
    let parts = [Reply::Int(0), Reply::Int(left?), Reply::bulk(which + stays)];
    Some(list(parts, token))
}

fn acquire_slots(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let (token, ttl) = (arguments[0], int(arguments[1]));
    let chosen: Vec<&str> = arguments[2..]
        .iter()
        .map(|number| keys[usize::try_from(int(number)).unwrap() - 1])
        .collect();
    let owners = call.values(keys);
    let others = |key: &&str| call_owner(&owners, keys, key).is_some_and(|owner| owner != token);
    if chosen.iter().any(others) {
        return refused_slots(call, (keys, &owners), chosen.len(), token);
    }
    let mut set = false;
    for key in &chosen {
        let owned = call_owner(&owners, keys, key).is_some();
        if !owned || call.pttl(key) < i64::try_from(ttl).unwrap() {
            call.set(key, token, call.ms() + ttl);
            set = true;
        }
    }
    if !set {
        rewrite(call, chosen[0]);
    }
    track(call, &chosen);
    Reply::bulk(token)
}

/// The value that was read of one of the keys.
fn call_owner<'a>(owners: &'a [Option<String>], keys: &[&str], key: &&str) -> Option<&'a String> {
    keys.iter().zip(owners).find(|(other, _)| *other == key)?.1.as_ref()
}

/// The reply of `acquire_slots` if others have some of the chosen slots.
fn refused_slots(
    call: &mut Call<'_>,
    (keys, owners): (&[&str], &[Option<String>]),
    wanted: usize,
    token: &str,
) -> Reply {
    let others = |owner: &Option<String>| owner.as_ref().is_some_and(|owner| owner != token);
    let which: Vec<usize> = (0..keys.len()).filter(|at| others(&owners[*at])).collect();
    let kept = which.iter().all(|at| owners[*at].as_deref().is_some_and(is_kept));
    let missing = wanted.saturating_sub(keys.len() - which.len());
    let end = |at: &usize| match call.pttl(keys[*at]) {
        -1 => i64::MAX,
        left => left,
    };
    let mut ends: Vec<i64> = which.iter().take(missing.max(16)).map(end).collect();
    ends.sort_unstable();
    let left = missing.checked_sub(1).map_or(0, |at| ends[at]);
    let left = if left == i64::MAX { -1 } else { left };
    let stays = if kept { "k" } else { "" };
    let which = which.iter().fold(String::new(), |list, at| format!("{list}{},", at + 1));
    list([Reply::Int(0), Reply::Int(left), Reply::bulk(which + stays)], token)
}

/// The fencing token of a grant, which `acquire` stores.
fn fence(call: &mut Call<'_>, fences: &[&str], arguments: &[&str]) -> Result<u64, Reply> {
    let (proposed, least, slack) = (int(arguments[2]), int(arguments[3]), int(arguments[4]));
    let now = call.server.clock_us(call.now);
    let first = least == 0;
    let mut highest = if first { proposed.clamp(now - slack, now + slack) } else { least };
    let mut most = 9_007_199_254_740_990;
    if first {
        most = most.min(proposed.max(now) + 3_155_760_000_000_000);
    }
    for key in fences {
        let stored = call.get(key);
        let Some(stored) = kept(stored.as_deref(), most) else {
            return Err(Reply::error(format!("FENCE {key}")));
        };
        highest = highest.max(stored + u64::from(first));
    }
    let forget = now.max(highest) / 1000 + 600_000;
    for key in fences {
        call.set(key, &highest.to_string(), forget);
    }
    Ok(call.server.wrong_token.take().unwrap_or(highest))
}

fn extend(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let (token, ttl, always) = (arguments[0], int(arguments[1]), arguments[2] == "1");
    let locks = if arguments.len() > 3 { keys.len() / 2 } else { keys.len() };
    let (locks, fences) = keys.split_at(locks);
    let owners = call.values(locks);
    let is_missing = |owner: &Option<String>| owner.as_deref().is_none_or(is_kept);
    if owners.iter().any(|owner| !is_missing(owner) && owner.as_deref() != Some(token)) {
        return list([Reply::Int(-1)], token);
    }
    if owners.iter().any(is_missing) {
        return list([Reply::Int(0)], token);
    }
    if let Some(fence) = arguments.get(3)
        && let Err(error) = raise(call, fences, int(fence))
    {
        return error;
    }
    let mut set = 0;
    for key in locks {
        set += if locks.len() > 1 {
            call.pexpire(key, ttl, When::Gt) + call.pexpire(key, ttl, When::Nx)
        } else if call.pttl(key) < i64::try_from(ttl).unwrap() {
            call.pexpire(key, ttl, When::Always)
        } else {
            0
        };
    }
    if set == 0 && always {
        rewrite(call, keys[0]);
    }
    track(call, locks);
    Reply::bulk(token)
}

/// Raises the stored fencing tokens to this one.
fn raise(call: &mut Call<'_>, fences: &[&str], fence: u64) -> Result<(), Reply> {
    let mut stored = Vec::new();
    for key in fences {
        let value = call.get(key);
        let error = || Reply::error(format!("FENCE {key}"));
        stored.push(kept(value.as_deref(), 9_007_199_254_740_991).ok_or_else(error)?);
    }
    let forget = call.server.clock_us(call.now).max(fence) / 1000 + 600_000;
    for (key, _) in fences.iter().zip(stored).filter(|(_, stored)| *stored < fence) {
        call.set(key, &fence.to_string(), forget);
    }
    Ok(())
}

pub(super) fn release(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let token = arguments[0];
    let stay = arguments.get(1).map_or(0, |stay| int(stay));
    let lengthens = stay > 0 && arguments.len() > 2;
    let earlier = if stay == 0 { arguments.get(2..).unwrap_or_default() } else { &[] };
    let tokens: Vec<&str> = [token].into_iter().chain(earlier.iter().copied()).collect();
    let owners = call.values(keys);
    let is_ours = |owner: &Option<String>| owner.as_deref().is_some_and(|it| tokens.contains(&it));
    let ours = keys.iter().zip(&owners).filter(|(_, owner)| is_ours(owner));
    let ours: Vec<&str> = ours.map(|(key, _)| *key).collect();
    if stay == 0 {
        call.del(&ours);
    } else {
        for key in &ours {
            let end = call.server.keys.get(*key).map_or(NO_END, |(_, end)| *end);
            call.set(key, &format!("{KEPT_PREFIX}{token}"), end);
            call.pexpire(key, stay, if lengthens { When::Always } else { When::Lt });
        }
    }
    if ours.len() == keys.len() { Reply::bulk(token) } else { list([Reply::Int(0)], token) }
}

fn extend_many(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let owners = call.values(keys);
    let mut results = Vec::new();
    for ((key, owner), pair) in keys.iter().zip(owners).zip(arguments.chunks(2)) {
        let is_ours = owner.as_deref() == Some(pair[0]);
        if is_ours && call.pexpire(key, int(pair[1]), When::Gt) == 0 {
            call.pexpire(key, int(pair[1]), When::Nx);
        }
        results.push(if is_ours { Reply::bulk(pair[0]) } else { Reply::Nil });
    }
    track(call, keys);
    Reply::List(results)
}

fn release_many(call: &mut Call<'_>, keys: &[&str], arguments: &[&str]) -> Reply {
    let owners = call.values(keys);
    let is_ours = |at: usize| owners[at].as_deref() == Some(arguments[at]);
    let ours: Vec<&str> =
        keys.iter().enumerate().filter(|(at, _)| is_ours(*at)).map(|(_, key)| *key).collect();
    call.del(&ours);
    let result = |at| if is_ours(at) { Reply::bulk(arguments[at]) } else { Reply::Nil };
    Reply::List((0..keys.len()).map(result).collect())
}

fn inspect(call: &mut Call<'_>, keys: &[&str], _: &[&str]) -> Reply {
    let owner = call.get(keys[0]);
    let owner = owner.map(|owner| owner.chars().take(64).collect());
    Reply::List(vec![Reply::text(owner), Reply::Int(call.pttl(keys[0])), Reply::bulk(keys[0])])
}
