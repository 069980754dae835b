//! What a node is asked, as commands for its server.
//!
//! Bytes and what their answer must look like; sending and reading are the connection's. Times are told as
//! durations, never as points in time, since a server's clock is its own - except where a delete must not be
//! late ([`force`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::in_flight::{Command, Expects, Purpose};
use super::packed::Packed;
use super::reply;
use super::script::{ACQUIRE, EXTEND, FORCE, INSPECT, RELEASE, scripts};
use crate::node::fencing::SLACK;
use crate::node::{Claim, Fencing, VoteParams};

/// How long answers to questions without a deadline of their own are waited for.
/// Callers have deadlines of their own; by this the connection knows how long a server may be silent.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);

/// A script's call: its answer ends with what it was asked for.
///
/// A proxy that loses one answer shifts all later ones by one; without the echo, somebody's grant could be counted for
/// another's round.
pub(super) fn script_call(
    call: Packed,
    echo: Arc<str>,
    purpose: Purpose,
    timeout: Duration,
) -> Command {
    let (bytes, expects) = (call.bytes(), Expects::Echo(echo));
    Command { bytes, expects, purpose, timeout, untracked: false }
}

/// One free key without fencing needs no script: a `SET NX`, and the read that tells who owns it now. The read also
/// has the key tracked, which it does only after the write. Of a foreign value as much is read as tells that it is.
///
/// Two plain commands cost the server 2.1 us instead of the script's 4.8, and their answers less to parse. The
/// grant names its question by the owner that the read shows; every refusal and every error is the script's to
/// tell.
pub(super) fn attempt(claim: &Claim, params: VoteParams) -> Command {
    let key = &claim.keys[0];
    // Both in one piece: this is the way of nearly every acquire.
    let mut both = Packed::with_room(10, 2 * key.len() + claim.token.len());
    both.packed(b"*6\r\n$3\r\nSET\r\n").word(key).word(&*claim.token);
    both.packed(b"$2\r\nNX\r\n$2\r\nPX\r\n").number(millis(params.ttl));
    // One byte more than a token has: a longer value is seen to be none of ours.
    both.packed(b"*4\r\n$8\r\nGETRANGE\r\n").word(key).packed(b"$1\r\n0\r\n");
    both.number(claim.token.len() as u64);
    Command {
        bytes: both.bytes(),
        expects: Expects::Owner,
        purpose: vote(claim, params, false),
        timeout: params.timeout,
        untracked: false,
    }
}

/// All keys or none, whoever has them; with fencing, and with a word on who is in the way.
pub(super) fn acquire_script(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    // The proposal, or 0, and the least that it may be, or 0: the script tells a first vote from a heal by
    // that.
    let fence = match params.fencing {
        Fencing::Off => None,
        Fencing::Propose(fence) => Some([fence, 0]),
        Fencing::AtLeast(fence) => Some([0, fence]),
    };
    let arguments = if fence.is_some() { 5 } else { 2 };
    let mut call = scripts()[ACQUIRE].on(&lock_keys(claim, params), arguments);
    call.word(&*claim.token).number(millis(params.ttl));
    if let Some([proposed, least]) = fence {
        call.number(proposed).number(least).number(micros(SLACK));
    }
    let token = Arc::clone(&claim.token);
    let call = script_call(call, Arc::clone(&token), vote(claim, params, sent), params.timeout);
    // The token alone grants no fencing token.
    if fence.is_some() { call } else { Command { expects: Expects::Token(token), ..call } }
}

/// What becomes of the vote when its connection dies: both kinds may have put the token on a key.
pub(super) fn vote(claim: &Claim, params: VoteParams, sent: bool) -> Purpose {
    let token = Arc::clone(&claim.token);
    if params.first { Purpose::FirstVote { token, sent } } else { Purpose::Heal(token) }
}

/// Deletes our keys, and no others; with `stay` they live on, for no longer than that. `owed`: how long they live at
/// most until then.
pub(super) fn release_script(claim: &Claim, owed: Duration, stay: Option<Duration>) -> Command {
    let mut call = scripts()[RELEASE].on(&claim.keys, 1 + usize::from(stay.is_some()));
    call.word(&*claim.token);
    if let Some(stay) = stay {
        call.number(millis(stay));
    }
    let token = Arc::clone(&claim.token);
    let purpose = Purpose::Delete { token: Arc::clone(&token), owed, until: None };
    let call = script_call(call, Arc::clone(&token), purpose, TIMEOUT);
    Command { expects: Expects::Token(token), ..call }
}

/// Deletes the keys whoever has them, if the server's own clock has not passed this time.
fn force_script(keys: &[String], by: u64) -> Command {
    let mut call = scripts()[FORCE].on(keys, 1);
    call.number(by);
    // Where a cluster's server sends it elsewhere, it begins anew there.
    script_call(call, by.to_string().into(), forcing(keys), TIMEOUT)
}

/// What the answer to the first question leads to.
fn forcing(keys: &[String]) -> Purpose {
    Purpose::Force { keys: keys.into(), begin: force, then: force_by }
}

/// The delete, good until the server's own clock has passed the caller's patience.
fn force_by(keys: &[String], answer: &Value) -> Option<Command> {
    let by = reply::time(answer)?.saturating_add(micros(TIMEOUT));
    Some(force_script(keys, by))
}

/// The keys that a script needs: the locks', and with fencing the fences'.
pub(super) fn lock_keys(claim: &Claim, params: VoteParams) -> Cow<'_, [String]> {
    match params.fencing {
        Fencing::Off => Cow::Borrowed(&claim.keys),
        _ => Cow::Owned([&*claim.keys, &*claim.fences].concat()),
    }
}

/// A time as scripts count it; of more than the number holds, the most.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A time as a server's expiry counts it; at least 1, for 0 is an error there.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Makes our keys live longer, and keeps the fencing token from being forgotten. `durable`: it writes in any case, for
/// `WAIT`.
pub(super) fn extend_script(claim: &Claim, params: VoteParams, durable: bool) -> Command {
    let fence = match params.fencing {
        Fencing::AtLeast(fence) => Some(fence),
        _ => None,
    };
    let mut call =
        scripts()[EXTEND].on(&lock_keys(claim, params), 3 + usize::from(fence.is_some()));
    call.word(&*claim.token).number(millis(params.ttl)).number(durable.into());
    if let Some(fence) = fence {
        call.number(fence);
    }
    let token = Arc::clone(&claim.token);
    let call = script_call(call, Arc::clone(&token), keep(params), params.timeout);
    Command { expects: Expects::Token(token), ..call }
}

/// Whether it counts for a lease, and so for replicas and disks.
pub(super) fn keep(params: VoteParams) -> Purpose {
    if params.check { Purpose::Plain } else { Purpose::Keep(None) }
}

/// Who has the key. Nobody waits to be told of it.
pub(super) fn inspect_script(key: &str) -> Command {
    let call = scripts()[INSPECT].on(&[key.to_owned()], 0);
    Command { untracked: true, ..script_call(call, key.into(), Purpose::Plain, TIMEOUT) }
}

/// Deletes the keys whoever has them, in two commands: a delete that arrives late, when its caller was long told
/// that it failed, could hit somebody's new lock. So the first asks for the server's time, and the second is good
/// for a moment only.
pub(super) fn force(keys: &[String]) -> Command {
    Command {
        bytes: cmd("TIME").get_packed_command(),
        // Nothing else is an answer to it: a shifted one must not become a deadline.
        expects: Expects::Time,
        purpose: forcing(keys),
        timeout: TIMEOUT,
        untracked: false,
    }
}

/// Answered behind everything that was asked before, whatever the answer says: PING may not be allowed.
pub(super) fn ping() -> Command {
    plain(&cmd("PING"), Purpose::Plain)
}

/// A command whatever its answer is; nobody's deadline but the connection's own.
pub(super) fn plain(command: &Cmd, purpose: Purpose) -> Command {
    Command {
        bytes: command.get_packed_command(),
        expects: Expects::Anything,
        purpose,
        timeout: TIMEOUT,
        untracked: false,
    }
}
