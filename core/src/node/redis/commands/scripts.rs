//! Builds the commands for a server. Most of them call a script.
//!
//! Each command has its bytes and the form of its reply. Times are sent as durations and not as points in time, because
//! a server has its own clock.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::encode::RequestBuffer;
use super::script::ENCODED_TOKEN;
#[cfg(test)]
pub(crate) use super::script::scripts;
pub(crate) use super::script::{Operation, Script, in_full, load_scripts, script};
use crate::node::redis::commands::command::{BatchKind, Combinable, Command, Expects, Purpose};

use crate::node::fencing::SLACK;
use crate::node::{Claim, Fencing, Form, ReleaseMode, Sides, Slots, VoteParams};

/// Builds the attempt to acquire one key without fencing, which needs no script. It consists of a `SET NX` and a read
/// of the owner. The read also makes the server track the key, which must happen after the write.
///
/// It costs the server less than the script. The owner in the reply identifies the command. If the attempt is refused
/// or fails, the script determines the result.
pub(crate) fn attempt(claim: &Claim, params: VoteParams) -> Command {
    let key = &claim.keys[0];
    // Encoded in one piece, because almost every acquire uses it.
    let mut both = RequestBuffer::with_room(10, 2 * key.len() + claim.token.len());
    let key_from = both.packed(b"*6\r\n$3\r\nSET\r\n").len();
    let key_end = both.word(key).len();
    both.word(&*claim.token).packed(b"$2\r\nNX\r\n$2\r\nPX\r\n").number(millis(params.ttl));
    let combinable = Combinable::new(BatchKind::Attempts, [key_from, key_end, both.len()]);
    // One byte more than a token has, so that a longer value is recognized as foreign.
    both.packed(b"*4\r\n$8\r\nGETRANGE\r\n").word(key).packed(b"$1\r\n0\r\n");
    both.number(claim.token.len() as u64);
    let command = Command::new(both.bytes(), Expects::Owner, vote(claim, params, false));
    Command { timeout: params.timeout, combinable, ..command }
}

/// Converts an attempt into the acquire script, for users without the right to read the owner by `GETRANGE`. Returns
/// `None` for other commands.
pub(crate) fn attempt_by_script(command: &Command) -> Option<Command> {
    let (Expects::Owner, Purpose::FirstVote { token, .. } | Purpose::Heal(token)) =
        (&command.expects, &command.purpose)
    else {
        return None;
    };
    let mut words = command.words().skip(1);
    let (key, ttl) = (words.next()?, words.nth(3)?);
    let mut call = script(Operation::Acquire).call(1, 2, command.bytes.len());
    call.word(key).word(&**token).word(ttl);
    let expects = Expects::Token(Arc::clone(token));
    let script = Command::new(call.bytes(), expects, command.purpose.clone());
    Some(Command { timeout: command.timeout, ..script })
}

/// Builds the script of a vote. `sent` means that this is the second command of the vote.
pub(crate) fn acquire(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    match &claim.form {
        Form::Keys => acquire_script(claim, params, sent),
        Form::Slots(slots) => slots_script(claim, slots, params, sent),
        Form::Read(sides) => read_script(claim, sides, params),
        // The keys of a lease are restored whether it is the turn of readers or not.
        Form::Write(_) if !params.first => acquire_script(claim, params, sent),
        Form::Write(sides) => write_script(claim, sides, params),
    }
}

/// Builds the acquire script, which acquires all keys or none. It supports fencing, and reports which keys are held.
pub(crate) fn acquire_script(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    keys_script(Operation::Acquire, claim, None, params, sent)
}

/// Builds the script of a writer, which is the acquire script behind the turn of waiting readers.
fn write_script(claim: &Claim, sides: &Sides, params: VoteParams) -> Command {
    keys_script(Operation::AcquireWrite, claim, Some(&sides.turn), params, false)
}

/// Builds the script that acquires whole keys. With a `turn`, that of a writer.
fn keys_script(
    operation: Operation,
    claim: &Claim,
    turn: Option<&String>,
    params: VoteParams,
    sent: bool,
) -> Command {
    // The proposal and the minimum, one of which is 0. The script distinguishes a first vote from a heal by them.
    let fence = match params.fencing {
        Fencing::Off => None,
        Fencing::Propose(fence) => Some([fence, 0]),
        Fencing::AtLeast(fence) => Some([0, fence]),
    };
    let keys = lock_keys(claim, params);
    let keys = match turn {
        Some(turn) => Cow::Owned([&*keys, std::slice::from_ref(turn)].concat()),
        None => keys,
    };
    let arguments = if fence.is_some() { 5 } else { 2 } + if turn.is_some() { 2 } else { 0 };
    let (mut call, _) = script(operation).on(&keys, arguments);
    call.word(&*claim.token).number(millis(params.ttl));
    if let Some([proposed, least]) = fence {
        call.number(proposed).number(least).number(micros(SLACK));
    }
    if turn.is_some() {
        turn_arguments(&mut call, params);
    }
    let token = Arc::clone(&claim.token);
    // With fencing the token alone is not a grant, because the fencing token is missing.
    let expects = if fence.is_some() { Expects::Echo(token) } else { Expects::Token(token) };
    let command = Command::new(call.bytes(), expects, vote(claim, params, sent));
    Command { timeout: params.timeout, ..command }
}

/// Builds the script that acquires the chosen ones of these keys.
fn slots_script(claim: &Claim, slots: &Slots, params: VoteParams, sent: bool) -> Command {
    let (mut call, _) = script(Operation::AcquireSlots).on(&slots.all, 2 + slots.chosen.len());
    call.word(&*claim.token).number(millis(params.ttl));
    for at in &slots.chosen {
        // Counted from 1, as in Lua.
        call.number(*at as u64 + 1);
    }
    let expects = Expects::Token(Arc::clone(&claim.token));
    let command = Command::new(call.bytes(), expects, vote(claim, params, sent));
    Command { timeout: params.timeout, ..command }
}

/// Builds the script of a reader.
fn read_script(claim: &Claim, sides: &Sides, params: VoteParams) -> Command {
    let keys = [&held_keys(claim, sides)[..], std::slice::from_ref(&sides.turn)].concat();
    let (mut call, _) = script(Operation::AcquireRead).on(&keys, 5);
    call.word(&*claim.token).number(millis(params.ttl)).number((!params.first).into());
    turn_arguments(&mut call, params);
    let expects = Expects::Token(Arc::clone(&claim.token));
    let command = Command::new(call.bytes(), expects, vote(claim, params, false));
    Command { timeout: params.timeout, ..command }
}

/// The keys that readers have.
fn held_keys(claim: &Claim, sides: &Sides) -> [String; 2] {
    [claim.keys[0].clone(), sides.readers.clone()]
}

/// Appends the window of the turn that a waiting caller sets, and how long it lasts until then. 0 if it does not wait.
fn turn_arguments(call: &mut RequestBuffer, params: VoteParams) {
    let turn = params.turn.map_or((0, 0), |turn| (millis(turn.window()), millis(turn.lasts())));
    call.number(turn.0).number(turn.1);
}

/// Returns the purpose of a vote. Both kinds may have set the token on a key when the connection breaks.
fn vote(claim: &Claim, params: VoteParams, sent: bool) -> Purpose {
    let token = Arc::clone(&claim.token);
    if params.first { Purpose::FirstVote { token, sent } } else { Purpose::Heal(token) }
}

/// Builds the release. Keys that remain are not tracked, because no caller waits for them.
pub(crate) fn release(claim: &Claim, lifetime: Duration, how: ReleaseMode) -> Command {
    let stay = match how {
        ReleaseMode::Stay { time, lengthens } => Some((time, lengthens)),
        _ => None,
    };
    let mut command = match &claim.form {
        Form::Read(sides) => {
            let keys = held_keys(claim, sides);
            release_by(Operation::ReleaseRead, &keys, &claim.token, lifetime, stay).0
        }
        Form::Keys | Form::Slots(_) | Form::Write(_) => release_script(claim, lifetime, stay),
    };
    command.untracked = matches!(how, ReleaseMode::DeleteLate | ReleaseMode::Stay { .. });
    if let Purpose::Delete { of_lease, .. } = &mut command.purpose {
        *of_lease = how != ReleaseMode::Undo;
    }
    command
}

/// Builds the script that deletes the keys that the claim owns. With `stay`, it limits their TTL to that instead, or
/// sets it if that lengthens it. The keys live for at most the given time before that.
pub(crate) fn release_script(
    claim: &Claim,
    lifetime: Duration,
    stay: Option<(Duration, bool)>,
) -> Command {
    let (command, positions) =
        release_by(Operation::Release, &claim.keys, &claim.token, lifetime, stay);
    let combinable = (claim.keys.len() == 1 && stay.is_none())
        .then(|| Combinable::new(BatchKind::Releases, positions));
    Command { combinable: combinable.flatten(), ..command }
}

/// Builds the call of this script for the release. Also returns where its keys begin and end, and where its token ends.
fn release_by(
    operation: Operation,
    keys: &[String],
    token: &Arc<str>,
    lifetime: Duration,
    stay: Option<(Duration, bool)>,
) -> (Command, [usize; 3]) {
    let words = stay.map_or(1, |(_, lengthens)| 2 + usize::from(lengthens));
    let (mut call, [from, to]) = script(operation).on(keys, words);
    let end = call.word(&**token).len();
    if let Some((time, lengthens)) = stay {
        call.number(millis(time));
        if lengthens {
            call.number(1);
        }
    }
    let purpose = Purpose::delete(Arc::clone(token), lifetime);
    let command = Command::new(call.bytes(), Expects::Token(Arc::clone(token)), purpose);
    (command, [from, to, end])
}

/// Builds the delete of what this vote may have set.
pub(crate) fn undo(vote: &Command, token: &Arc<str>, lifetime: Duration) -> Command {
    let mut keys = vote.vote_keys();
    let of = Script::called_by(vote).map(|script| script.operation);
    if matches!(of, Some(Operation::AcquireRead | Operation::AcquireWrite)) {
        // The turn is last, and belongs to no vote.
        keys.pop();
    }
    let is_read = of == Some(Operation::AcquireRead);
    let operation = if is_read { Operation::ReleaseRead } else { Operation::Release };
    release_by(operation, &keys, token, lifetime, None).0
}

/// Builds the release by this script for keys that any of these claims may own.
pub(crate) fn merged_release(
    script: &Script,
    keys: &[&[u8]],
    token: &str,
    earlier: &[Arc<str>],
) -> Vec<u8> {
    let long = keys.iter().map(|key| key.len()).sum::<usize>() + ENCODED_TOKEN * earlier.len();
    let mut call = script.call(keys.len(), 2 + earlier.len(), long);
    keys.iter().for_each(|key| {
        call.word(key);
    });
    // Keeps nothing.
    call.word(token).number(0);
    earlier.iter().for_each(|token| {
        call.word(&**token);
    });
    call.bytes()
}

/// Returns the keys of a script: the lock keys, followed by the fence keys with fencing.
pub(crate) fn lock_keys(claim: &Claim, params: VoteParams) -> Cow<'_, [String]> {
    match params.fencing {
        Fencing::Off => Cow::Borrowed(&claim.keys),
        _ => Cow::Owned([&*claim.keys, &*claim.fences].concat()),
    }
}

/// Converts a time to microseconds for scripts, saturating.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Converts a time to milliseconds for a TTL. At least 1, because servers reject 0.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Builds the script that extends the keys and keeps the fencing token from expiring. With `durable` it always writes,
/// so that `WAIT` covers it.
pub(crate) fn extend_script(claim: &Claim, params: VoteParams, durable: bool) -> Command {
    // A check does not need replicas or disks.
    let purpose = if params.check { Purpose::Plain } else { Purpose::Extend };
    let expects = Expects::Token(Arc::clone(&claim.token));
    if let Form::Read(sides) = &claim.form {
        // Always writes.
        let (mut call, _) = script(Operation::ExtendRead).on(&held_keys(claim, sides), 2);
        call.word(&*claim.token).number(millis(params.ttl));
        let command = Command::new(call.bytes(), expects, purpose);
        return Command { timeout: params.timeout, ..command };
    }
    let fence = match params.fencing {
        Fencing::AtLeast(fence) => Some(fence),
        _ => None,
    };
    let (mut call, [from, to]) =
        script(Operation::Extend).on(&lock_keys(claim, params), 3 + usize::from(fence.is_some()));
    let end = call.word(&*claim.token).number(millis(params.ttl)).len();
    call.number(durable.into());
    if let Some(fence) = fence {
        call.number(fence);
    }
    let combinable = (claim.keys.len() == 1 && fence.is_none() && !durable)
        .then(|| Combinable::new(BatchKind::Extends, [from, to, end]));
    let command = Command::new(call.bytes(), expects, purpose);
    Command { timeout: params.timeout, combinable: combinable.flatten(), ..command }
}

/// Builds the script that reads the holder of a key. The key is not tracked, because no caller waits for its change.
pub(crate) fn inspect_script(key: &str) -> Command {
    let (call, _) = script(Operation::Inspect).on(&[key.to_owned()], 0);
    let command = Command::new(call.bytes(), Expects::Echo(key.into()), Purpose::Plain);
    Command { untracked: true, ..command }
}

/// Builds a write without effect on a key that does not exist. Unlike a `PING`, it is refused by replicas, and by
/// servers without memory or disk.
pub(crate) fn probe(key: &str) -> Command {
    let write = redis::cmd("SET").arg(key).arg("").arg("XX").arg("PX").arg(1).clone();
    Command { untracked: true, ..plain(&write, Purpose::Plain) }
}

/// How many keys a server looks at for one page of a listing.
const PAGE: u64 = 1000;

/// Builds the script that lists a page of the keys that match, from a cursor on.
pub(crate) fn list_script(cursor: &[u8], pattern: &str) -> Command {
    let mut call = script(Operation::Keys).call(0, 3, cursor.len() + pattern.len());
    call.word(cursor).word(pattern).number(PAGE);
    Command::new(call.bytes(), Expects::Echo(pattern.into()), Purpose::Plain)
}

/// The encoded `PING`.
pub(crate) const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Builds a `PING`. Any reply to it means that all earlier commands have their replies. A connection whose user may not
/// run it sends another command instead.
pub(crate) fn ping() -> Command {
    Command::new(PING.to_vec(), Expects::Anything, Purpose::Plain)
}

/// Builds a command with any reply and the default timeout.
pub(crate) fn plain(command: &Cmd, purpose: Purpose) -> Command {
    Command::new(command.get_packed_command(), Expects::Anything, purpose)
}
