//! What a node is asked without scripts: by the server's own compare-and-delete, and by transactions.
//!
//! For users who may not run scripts (`scripts` off), and a release wherever that was measured to be cheaper. Each
//! command's answer comes in [`Parts`] and makes the one that the script would have given.
//!
//! An extension is asked for in two steps, as no command lengthens only what is ours and never shortens it
//! (`SET … IFEQ … PX` would cut what a longer one made of it): a read that shows whether it is ours, and only then
//! `PEXPIRE GT`. The read behind it, in one transaction, is what confirms it. Where the key changes hands between the
//! steps its new owner's time may get longer, by ours at most: nobody gets in by that.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::commands::{TIMEOUT, keep, millis, release_script, vote};
use super::in_flight::{Command, Expects, Purpose};
use super::packed::Packed;
use super::parts::{Asked, OURS, Parts};
use super::reply::{self, Answer};
use crate::node::{Claim, Extension, Fault, Vote, VoteParams};

/// How a server deletes what has this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delete {
    /// `DELIFEQ`, of Valkey 9.
    IfEq,
    /// `DELEX … IFEQ`, of Redis 8.4.
    Ex,
}

impl Delete {
    /// All that there are.
    pub(super) const ALL: [Self; 2] = [Self::IfEq, Self::Ex];

    /// The command's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IfEq => "DELIFEQ",
            Self::Ex => "DELEX",
        }
    }

    /// Whether the server knows it: of a key that nobody has it deletes nothing.
    pub(super) fn trial(self, key: &str) -> Cmd {
        let only_if: &[&str] = if self == Self::Ex { &["IFEQ"] } else { &[] };
        cmd(self.name()).arg(key).arg(only_if).arg("x").clone()
    }
}

/// The longest value that is deleted by force: a longer one is no lock's.
const LONGEST: usize = 1024;

/// The caller's own deadline is put in where there is one.
fn command(bytes: Vec<u8>, parts: Parts, purpose: Purpose) -> Command {
    Command { bytes, expects: Expects::Parts(parts), purpose, timeout: TIMEOUT, untracked: false }
}

/// The commands in one piece, so that they go out in one write.
fn packed<'a>(commands: impl IntoIterator<Item = &'a Cmd>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    commands.into_iter().for_each(|command| command.write_packed_command(&mut bytes));
    bytes
}

/// A command, and what names it.
fn pair(asked: Asked, of: &Cmd, echo: &str, purpose: Purpose) -> Command {
    let bytes = packed([of, cmd("PING").arg(echo)]);
    command(bytes, Parts::pair(asked, echo), purpose)
}

/// Commands that nothing comes between, and what names them.
///
/// Asking and not tracking, said before it, hold for all of it.
fn transaction(asked: Asked, of: &[Cmd], echo: &str, purpose: Purpose) -> Command {
    let (begin, name, end) = (cmd("MULTI"), cmd("PING").arg(echo).clone(), cmd("EXEC"));
    let bytes = packed([&begin].into_iter().chain(of).chain([&name, &end]));
    command(bytes, Parts::transaction(asked, echo, of.len()), purpose)
}

/// So much of a value as tells that it is one token, and one byte more.
fn owner(key: &str, token: &str) -> Cmd {
    cmd("GETRANGE").arg(key).arg(0).arg(token.len()).clone()
}

/// The only key: more than one is refused before anything is sent, and so is fencing.
fn key(claim: &Claim) -> &str {
    claim.keys.first().map_or("", String::as_str)
}

/// The key, whoever has it; and a word on who is in the way.
pub(super) fn acquire(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    let (key, token, ttl) = (key(claim), &*claim.token, millis(params.ttl));
    let make = cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ttl).clone();
    let all = [make, owner(key, token), cmd("PTTL").arg(key).clone()];
    let purpose = vote(claim, params, sent);
    let command = transaction(Asked::Acquire(ttl), &all, token, purpose);
    Command { timeout: params.timeout, ..command }
}

/// Whether the key was ours already, by the answer to [`acquire`]: it is to be lengthened then.
pub(super) fn was_ours(answer: &Value) -> bool {
    matches!(answer, Value::Array(parts) if parts.first() == Some(&Value::Int(OURS)))
}

/// The vote of a key that was ours already, by the answer to its extension.
pub(super) fn kept(answer: &Value) -> Answer<Vote> {
    match reply::extension(answer)? {
        Extension::Extended => Ok(Vote::Granted(None)),
        Extension::Missing | Extension::Taken => {
            Err(Fault::new("the key changed hands while it was asked for"))
        }
    }
}

/// Makes our key live longer. `durable`: what lengthens nothing writes, too: WAIT knows of writes alone.
pub(super) fn extend(claim: &Claim, params: VoteParams, durable: bool) -> Command {
    let (key, token) = (key(claim), &*claim.token);
    let longer = cmd("PEXPIRE").arg(key).arg(millis(params.ttl)).arg("GT").clone();
    let mut all = vec![longer, owner(key, token)];
    if durable {
        let same = cmd("SET").arg(key).arg(token).arg("IFEQ").arg(token).arg("KEEPTTL").clone();
        all.insert(0, same);
    }
    let second = transaction(Asked::Extend, &all, token, keep(params));
    let second = Command { timeout: params.timeout, ..second };
    let purpose = Purpose::Keep(Some(Box::new(second)));
    let first = pair(Asked::Owner, &owner(key, token), token, purpose);
    Command { timeout: params.timeout, ..first }
}

/// Deletes our key, and no other. `owed`: how long it lives at most.
pub(super) fn release(claim: &Claim, owed: Duration, by: Delete) -> Command {
    let (key, token) = (key(claim), Arc::clone(&claim.token));
    let parts = Parts::pair(Asked::Delete, &token);
    let bytes = delete(by, key, token.as_bytes(), &token);
    command(bytes, parts, Purpose::Delete { token, owed, until: None })
}

/// Has our key, and no other, be nobody's and live for so long from now on. `owed`: how long it lives at most until then.
///
/// Where it comes very late it may be longer than what was left: it stays ours, and for `stay` at most.
pub(super) fn shorten(claim: &Claim, owed: Duration, stay: Duration) -> Command {
    let (key, token) = (key(claim), Arc::clone(&claim.token));
    let mut set = cmd("SET");
    set.arg(key).arg(claim.kept()).arg("IFEQ").arg(&*token).arg("PX").arg(millis(stay));
    let purpose = Purpose::Delete { token: Arc::clone(&token), owed, until: None };
    pair(Asked::Shorten, &set, &token, purpose)
}

/// A delete of what has this value, and what names it: in one piece, as this is the way of nearly every release.
fn delete(by: Delete, key: &str, value: &[u8], echo: &str) -> Vec<u8> {
    let mut both = Packed::with_room(6, key.len() + value.len() + echo.len());
    match by {
        Delete::IfEq => both.request(3).word(by.name()).word(key),
        Delete::Ex => both.request(4).word(by.name()).word(key).word("IFEQ"),
    };
    both.word(value).request(2).word("PING").word(echo);
    both.bytes()
}

/// The same delete for a server that wants it asked in another way; `None`: it is asked as it should be.
///
/// What is asked before there is a connection, or owed by one to another server, is for whichever comes.
pub(super) fn respelled(command: &Command, by: Option<Delete>) -> Option<Command> {
    let Expects::Parts(parts) = &command.expects else { return None };
    let mut words = command.words();
    if !parts.is_delete() || words.next() == by.map(|by| by.name().as_bytes()) {
        return None;
    }
    let (key, mut value) = (words.next()?, words.next()?);
    if command.words().next() == Some(Delete::Ex.name().as_bytes()) {
        value = words.next()?;
    }
    let key = String::from_utf8_lossy(key).into_owned();
    let other = match (by, &command.purpose) {
        (Some(by), _) => {
            Command { bytes: delete(by, &key, value, parts.echo()), ..command.clone() }
        }
        (None, Purpose::Delete { token, owed, .. }) => {
            let (keys, fences) = ([key].into(), Arc::default());
            release_script(&Claim { keys, fences, token: Arc::clone(token) }, *owed, None)
        }
        // By force it is asked for in this way only where there is no script.
        _ => return None,
    };
    Some(Command { purpose: command.purpose.clone(), untracked: command.untracked, ..other })
}

/// Who has the key. Nobody waits to be told of it.
pub(super) fn inspect(key: &str) -> Command {
    let all = [cmd("GETRANGE").arg(key).arg(0).arg(63).clone(), cmd("PTTL").arg(key).clone()];
    let asked = transaction(Asked::Inspect, &all, key, Purpose::Plain);
    Command { untracked: true, ..asked }
}

/// Deletes the key whoever has it, in two steps: who that is, and then what that one has. A delete that arrives late
/// hits nobody's new lock.
pub(super) fn force(keys: &[String]) -> Command {
    let key = keys.first().map_or("", String::as_str);
    let read = cmd("GETRANGE").arg(key).arg(0).arg(LONGEST).clone();
    Command { untracked: true, ..pair(Asked::Seen, &read, key, seizing(keys)) }
}

/// What the answer to the first question leads to.
fn seizing(keys: &[String]) -> Purpose {
    Purpose::Force { keys: keys.into(), begin: force, then: force_seen }
}

/// The second step, by the answer to the first.
fn force_seen(keys: &[String], answer: &Value) -> Option<Command> {
    let Value::Array(parts) = answer else { return None };
    let ([Value::BulkString(owner), _], [key, ..]) = (&parts[..], keys) else { return None };
    if owner.len() > LONGEST {
        return None;
    }
    let bytes = delete(Delete::IfEq, key, owner, key);
    Some(command(bytes, Parts::pair(Asked::Delete, key), seizing(keys)))
}

/// The answer to [`force`]: whether there was something to delete.
pub(super) fn forced(answer: &Value) -> Answer<bool> {
    match answer {
        Value::Array(parts) => match &parts[..] {
            [Value::Nil, _] => Ok(false),
            [Value::BulkString(_), _] => Err(Fault::unsupported(
                "the key holds a value of more than a kilobyte, it is no lock: delete it by hand",
            )),
            _ => reply::count(answer),
        },
        other => Err(reply::unexpected(other)),
    }
}
