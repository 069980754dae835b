//! Builds the commands for a server, and defines the Lua scripts that most of them call.
//!
//! Each command has its bytes and the form of its reply. Times are sent as durations and not as points in time, because
//! a server has its own clock.
//!
//! Each file of `lua` begins with its contract. Scripts are loaded at connect and called by digest. They are loaded
//! again if a server has lost them (`NOSCRIPT`). Running a script twice is safe, because commands may be sent again and
//! deletes repeated.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, cmd};

use super::encode::RequestBuffer;
use crate::node::redis::commands::command::{BatchKind, Combinable, Command, Expects, Purpose};

use crate::node::fencing::SLACK;
use crate::node::{Claim, Fencing, Form, ReleaseMode, Slots, VoteParams};
use once_cell::race::OnceBox;
use redis::Script as Digest;

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
    }
}

/// Builds the acquire script, which acquires all keys or none. It supports fencing, and reports which keys are held.
pub(crate) fn acquire_script(claim: &Claim, params: VoteParams, sent: bool) -> Command {
    // The proposal and the minimum, one of which is 0. The script distinguishes a first vote from a heal by them.
    let fence = match params.fencing {
        Fencing::Off => None,
        Fencing::Propose(fence) => Some([fence, 0]),
        Fencing::AtLeast(fence) => Some([0, fence]),
    };
    let arguments = if fence.is_some() { 5 } else { 2 };
    let (mut call, _) = script(Operation::Acquire).on(&lock_keys(claim, params), arguments);
    call.word(&*claim.token).number(millis(params.ttl));
    if let Some([proposed, least]) = fence {
        call.number(proposed).number(least).number(micros(SLACK));
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

/// Returns the purpose of a vote. Both kinds may have set the token on a key when the connection breaks.
fn vote(claim: &Claim, params: VoteParams, sent: bool) -> Purpose {
    let token = Arc::clone(&claim.token);
    if params.first { Purpose::FirstVote { token, sent } } else { Purpose::Heal(token) }
}

/// Builds the release. Keys that remain are not tracked, because no caller waits for them.
pub(crate) fn release(claim: &Claim, lifetime: Duration, how: ReleaseMode) -> Command {
    let stay = if let ReleaseMode::Stay(stay) = how { Some(stay) } else { None };
    let mut command = release_script(claim, lifetime, stay);
    command.untracked = matches!(how, ReleaseMode::DeleteLate | ReleaseMode::Stay(_));
    if let Purpose::Delete { of_lease, .. } = &mut command.purpose {
        *of_lease = how != ReleaseMode::Undo;
    }
    command
}

/// Builds the script that deletes the keys that the claim owns. With `stay`, it limits their TTL to that instead. The
/// keys live for at most the given time before that.
pub(crate) fn release_script(claim: &Claim, lifetime: Duration, stay: Option<Duration>) -> Command {
    let (mut call, [from, to]) =
        script(Operation::Release).on(&claim.keys, 1 + usize::from(stay.is_some()));
    let end = call.word(&*claim.token).len();
    if let Some(stay) = stay {
        call.number(millis(stay));
    }
    let combinable = (claim.keys.len() == 1 && stay.is_none())
        .then(|| Combinable::new(BatchKind::Releases, [from, to, end]));
    let token = Arc::clone(&claim.token);
    let purpose = Purpose::delete(Arc::clone(&token), lifetime);
    let command = Command::new(call.bytes(), Expects::Token(token), purpose);
    Command { combinable: combinable.flatten(), ..command }
}

/// Builds the release script for keys that any of these claims may own.
pub(crate) fn merged_release(keys: &[&[u8]], token: &str, earlier: &[Arc<str>]) -> Vec<u8> {
    let long = keys.iter().map(|key| key.len()).sum::<usize>() + TOKEN * earlier.len();
    let mut call = script(Operation::Release).call(keys.len(), 2 + earlier.len(), long);
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
    let expects = Expects::Token(Arc::clone(&claim.token));
    // A check does not need replicas or disks.
    let purpose = if params.check { Purpose::Plain } else { Purpose::Extend };
    let command = Command::new(call.bytes(), expects, purpose);
    Command { timeout: params.timeout, combinable: combinable.flatten(), ..command }
}

/// Builds the script that reads the holder of a key. The key is not tracked, because no caller waits for its change.
pub(crate) fn inspect_script(key: &str) -> Command {
    let (call, _) = script(Operation::Inspect).on(&[key.to_owned()], 0);
    let command = Command::new(call.bytes(), Expects::Echo(key.into()), Purpose::Plain);
    Command { untracked: true, ..command }
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

/// Loads the scripts of every lock into the server, or `all` scripts.
pub(crate) fn load_scripts(all: bool) -> impl Iterator<Item = Cmd> {
    let wanted = move |script: &&Script| all || script.operation != Operation::AcquireSlots;
    let scripts = scripts().iter().filter(wanted);
    scripts.map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}

/// What a script does. Those for many extend or delete the keys of different leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    Extend,
    ExtendMany,
    Release,
    ReleaseMany,
    Inspect,
    /// Acquires some of the keys of a semaphore.
    AcquireSlots,
}

/// A script and its digest.
pub(crate) struct Script {
    pub(crate) operation: Operation,
    /// The text to load.
    pub(crate) text: String,
    /// The SHA-1 of the text, by which `EVALSHA` calls it.
    pub(crate) digest: String,
    /// The encoded first two words of its call.
    name: Vec<u8>,
}

impl Script {
    /// Creates a script. Shared functions replace the line `--@values`, because scripts cannot call each other.
    fn new(operation: Operation, text: &str) -> Self {
        let text = text.replace("--@values\n", include_str!("lua/values.lua"));
        let digest = Digest::new(&text).get_hash().to_owned();
        let mut call = RequestBuffer::with_room(2, digest.len());
        call.word("EVALSHA").word(&digest);
        Self { operation, text, digest, name: call.bytes() }
    }

    /// Begins the call on these keys. The arguments follow. Also returns where the keys begin and end.
    fn on(&self, keys: &[String], arguments: usize) -> (RequestBuffer, [usize; 2]) {
        let long = keys.iter().map(String::len).sum::<usize>() + TOKEN;
        let mut call = self.call(keys.len(), arguments, long);
        let positions = [call.len(), call.words(keys).len()];
        (call, positions)
    }

    /// Begins the call on this number of keys and arguments, which follow. `long` is their total length.
    pub(crate) fn call(&self, keys: usize, arguments: usize, long: usize) -> RequestBuffer {
        let words = 3 + keys + arguments;
        let mut call = RequestBuffer::with_room(words, long + self.name.len());
        call.request(words).packed(&self.name).number(keys as u64);
        call
    }
}

/// Converts a call by digest into a call with the full script, for servers that do not store scripts. `None` for other
/// commands.
pub(crate) fn in_full<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    words.next().filter(|name| *name == b"EVALSHA")?;
    let digest = words.next()?;
    let script = scripts().iter().find(|script| script.digest.as_bytes() == digest)?;
    let rest: Vec<_> = words.collect();
    let long = rest.iter().map(|word| word.len()).sum::<usize>() + script.text.len();
    let mut call = RequestBuffer::with_room(2 + rest.len(), long);
    call.request(2 + rest.len()).word("EVAL").word(&script.text);
    rest.iter().for_each(|word| {
        call.word(word);
    });
    Some(call.bytes())
}

/// The usual length of a token, with its encoding. A longer one makes the buffer grow.
const TOKEN: usize = 40;

/// Returns the script for this operation.
pub(crate) fn script(operation: Operation) -> &'static Script {
    &scripts()[operation as usize]
}

/// Returns all scripts, in the order of [`Operation`].
///
/// Threads that call this first at the same time each create them, and one result is kept. With a lock instead, a
/// process that is forked meanwhile would find it locked forever.
pub(crate) fn scripts() -> &'static [Script; 7] {
    static SCRIPTS: OnceBox<[Script; 7]> = OnceBox::new();
    SCRIPTS.get_or_init(|| Box::new(all()))
}

fn all() -> [Script; 7] {
    [
        Script::new(Operation::Acquire, include_str!("lua/acquire.lua")),
        Script::new(Operation::Extend, include_str!("lua/extend.lua")),
        Script::new(Operation::ExtendMany, include_str!("lua/extend_many.lua")),
        Script::new(Operation::Release, include_str!("lua/release.lua")),
        Script::new(Operation::ReleaseMany, include_str!("lua/release_many.lua")),
        Script::new(Operation::Inspect, include_str!("lua/inspect.lua")),
        Script::new(Operation::AcquireSlots, include_str!("lua/acquire_slots.lua")),
    ]
}
