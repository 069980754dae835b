//! Builds lock commands without scripts, from the server's compare-and-delete and from transactions.
//!
//! They are for users without the right to run scripts (`scripts` off). The replies are combined in [`CompoundReply`],
//! in the form of the script's reply.
//!
//! An extend takes two steps, because no command extends only our own key without ever shortening it. `SET … IFEQ … PX`
//! would shorten a longer TTL. The first step reads the owner, and the second one sends `PEXPIRE GT`. A read after it
//! in the same transaction confirms the result. If the key changes its owner between the steps, the TTL of the new
//! owner may grow, by at most ours. This does not admit another holder.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd, pipe};

use super::compound_reply::{CompoundReply, OURS, Operation};
use super::encode::RequestBuffer;
use super::reply::{self, Answer};
use super::scripts::{extend_purpose, millis, vote};
use crate::node::redis::protocol::{Command, Expects, Purpose};
use crate::node::{Claim, Extension, Fault, MAX_INSPECTED, Vote, VoteParams};

/// The compare-and-delete command of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delete {
    /// `DELIFEQ` of Valkey 9.
    IfEq,
    /// `DELEX … IFEQ` of Redis 8.4.
    Ex,
}

impl Delete {
    pub(crate) const ALL: [Self; 2] = [Self::IfEq, Self::Ex];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::IfEq => "DELIFEQ",
            Self::Ex => "DELEX",
        }
    }

    /// Builds a test of the command, on a key that does not exist.
    pub(crate) fn trial(self, key: &str) -> Cmd {
        let only_if: &[&str] = if self == Self::Ex { &["IFEQ"] } else { &[] };
        cmd(self.name()).arg(key).arg(only_if).arg("x").clone()
    }
}

/// Builds a command with a compound reply.
fn command(bytes: Vec<u8>, parts: CompoundReply, purpose: Purpose) -> Command {
    Command::new(bytes, Expects::Compound(parts), purpose)
}

/// Builds a command, followed by a `PING` with the echo.
fn pair(asked: Operation, of: Cmd, echo: &str, purpose: Purpose) -> Command {
    let both = pipe().add_command(of).cmd("PING").arg(echo).get_packed_pipeline();
    command(both, CompoundReply::pair(asked, echo), purpose)
}

/// Builds a transaction with a `PING` that returns the echo.
///
/// The prefixes for migrating slots and untracked reads apply to the whole transaction.
fn transaction(asked: Operation, of: Vec<Cmd>, echo: &str, purpose: Purpose) -> Command {
    let parts = CompoundReply::transaction(asked, echo, of.len());
    let mut all = pipe();
    for command in of {
        all.add_command(command);
    }
    command(all.atomic().cmd("PING").arg(echo).get_packed_pipeline(), parts, purpose)
}

/// Reads enough of the value to recognize a token, plus one byte.
fn owner(key: &str, token: &str) -> Cmd {
    cmd("GETRANGE").arg(key).arg(0).arg(token.len()).clone()
}

/// Returns the only key. Several keys and fencing were refused earlier.
fn key(claim: &Claim) -> &str {
    claim.keys.first().map_or("", String::as_str)
}

/// Builds the acquire of one key, which also reports the holder.
pub(crate) fn acquire(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    let (key, token, ttl) = (key(claim), &*claim.token, millis(params.ttl));
    let make = cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ttl).clone();
    let all = vec![make, owner(key, token), cmd("PTTL").arg(key).clone()];
    let purpose = vote(claim, params, sent);
    let command = transaction(Operation::Acquire(ttl), all, token, purpose);
    Command { timeout: params.timeout, ..command }
}

/// Whether the key was already ours, by the reply to [`acquire`]. It must then be extended.
pub(crate) fn was_ours(answer: &Value) -> bool {
    matches!(answer, Value::Array(parts) if parts.first() == Some(&Value::Int(OURS)))
}

/// Returns the vote for a key that was already ours, by the reply to its extend.
pub(crate) fn kept(answer: &Value) -> Answer<Vote> {
    match reply::extension(answer)? {
        Extension::Extended => Ok(Vote::Granted(None)),
        Extension::Missing | Extension::Taken => {
            Err(Fault::new("the key changed its owner during the request"))
        }
    }
}

/// Builds the extend of one key. With `durable` it writes even if it does not extend, because `WAIT` covers writes
/// only.
pub(crate) fn extend(claim: &Claim, params: VoteParams, durable: bool) -> Command {
    let (key, token) = (key(claim), &*claim.token);
    let longer = cmd("PEXPIRE").arg(key).arg(millis(params.ttl)).arg("GT").clone();
    let mut all = vec![longer, owner(key, token)];
    if durable {
        let same = cmd("SET").arg(key).arg(token).arg("IFEQ").arg(token).arg("KEEPTTL").clone();
        all.insert(0, same);
    }
    let second = transaction(Operation::Extend, all, token, extend_purpose(params));
    let second = Command { timeout: params.timeout, ..second };
    let purpose = Purpose::Extend(Some(Box::new(second)));
    let first = pair(Operation::Owner, owner(key, token), token, purpose);
    Command { timeout: params.timeout, ..first }
}

/// Builds the delete of our key. The key lives for at most the given time. It is encoded with its echo in one piece,
/// because almost every release uses it.
pub(crate) fn release(claim: &Claim, lifetime: Duration, by: Delete) -> Command {
    let (key, token) = (key(claim), Arc::clone(&claim.token));
    let mut both = RequestBuffer::with_room(6, key.len() + 2 * token.len());
    match by {
        Delete::IfEq => both.request(3).word(by.name()).word(key),
        Delete::Ex => both.request(4).word(by.name()).word(key).word("IFEQ"),
    };
    both.word(&*token).request(2).word("PING").word(&*token);
    let parts = CompoundReply::pair(Operation::Delete, &token);
    command(both.bytes(), parts, Purpose::delete(token, lifetime))
}

/// Builds the command that releases our key but keeps it for `stay`. The key lives for at most the given time before
/// that.
///
/// If it arrives very late, it may extend the key, by at most `stay`.
pub(crate) fn shorten(claim: &Claim, lifetime: Duration, stay: Duration) -> Command {
    let (key, token) = (key(claim), Arc::clone(&claim.token));
    let mut set = cmd("SET");
    set.arg(key).arg(claim.kept()).arg("IFEQ").arg(&*token).arg("PX").arg(millis(stay));
    let purpose = Purpose::delete(Arc::clone(&token), lifetime);
    pair(Operation::Shorten, set, &token, purpose)
}

/// Converts a delete to the form that this server supports. Returns `None` if it already has that form.
///
/// Each delete is built as a script. One that is pending from another server may have another form.
pub(crate) fn converted_delete(command: &Command, by: Delete) -> Option<Command> {
    let Purpose::Delete { token, lifetime, .. } = &command.purpose else { return None };
    let mut words = command.words();
    let key = match &command.expects {
        Expects::Compound(parts) if parts.is_delete() => {
            let name = words.next();
            words.next().filter(|_| name != Some(by.name().as_bytes()))?
        }
        // A script for several keys, or for keys that remain, has no other form.
        Expects::Token(_) => match words.collect::<Vec<_>>()[..] {
            [_, _, b"1", key, _] => key,
            _ => return None,
        },
        _ => return None,
    };
    let keys = [String::from_utf8_lossy(key).into_owned()].into();
    let claim = Claim { keys, fences: Arc::default(), token: Arc::clone(token) };
    let other = release(&claim, *lifetime, by);
    let Command { purpose, timeout, untracked, .. } = command;
    Some(Command { purpose: purpose.clone(), timeout: *timeout, untracked: *untracked, ..other })
}

/// Builds the read of a key's holder. The key is not tracked, because no caller waits for its change.
pub(crate) fn inspect(key: &str) -> Command {
    let read = cmd("GETRANGE").arg(key).arg(0).arg(MAX_INSPECTED - 1).clone();
    let all = vec![read, cmd("PTTL").arg(key).clone()];
    let asked = transaction(Operation::Inspect, all, key, Purpose::Plain);
    Command { untracked: true, ..asked }
}
