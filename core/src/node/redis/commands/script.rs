//! The Lua scripts, which servers store and call by their digest.
//!
//! Each file of `lua` begins with its contract. Scripts are loaded at connect and called by digest. They are loaded
//! again if a server has lost them (`NOSCRIPT`). Running a script twice is safe, because commands may be sent again and
//! deletes repeated.

use once_cell::race::OnceBox;
use redis::{Cmd, Script as Digest, cmd};

use super::command::Command;
use super::encode::RequestBuffer;

/// Loads the scripts of every lock into the server, or `all` scripts.
pub(crate) fn load_scripts(all: bool) -> impl Iterator<Item = Cmd> {
    let wanted = move |script: &&Script| all || script.operation < Operation::AcquireSlots;
    let scripts = scripts().iter().filter(wanted);
    scripts.map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}

/// What a script does. Those for many extend or delete the keys of different leases. Those of a lock come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Acquire,
    Extend,
    ExtendMany,
    Release,
    ReleaseMany,
    Inspect,
    /// Acquires some of the keys of a semaphore.
    AcquireSlots,
    AcquireRead,
    ExtendRead,
    ReleaseRead,
    AcquireWrite,
    /// Lists keys.
    Keys,
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
    /// Creates a script. Shared functions replace the lines `--@values` and `--@turn`, because scripts cannot call each
    /// other.
    fn new(operation: Operation, text: &str) -> Self {
        let text = text
            .replace("--@values\n", include_str!("lua/values.lua"))
            .replace("--@turn\n", include_str!("lua/turn.lua"));
        let digest = Digest::new(&text).get_hash().to_owned();
        let mut call = RequestBuffer::with_room(2, digest.len());
        call.word("EVALSHA").word(&digest);
        Self { operation, text, digest, name: call.bytes() }
    }

    /// Returns the script that a command calls.
    pub(crate) fn called_by(command: &Command) -> Option<&'static Self> {
        let mut words = command.words();
        let (name, which) = (words.next()?, words.next()?);
        scripts().iter().find(|script| match name {
            b"EVALSHA" => script.digest.as_bytes() == which,
            b"EVAL" => script.text.as_bytes() == which,
            _ => false,
        })
    }

    /// Begins the call on these keys. The arguments follow. Also returns where the keys begin and end.
    pub(super) fn on(&self, keys: &[String], arguments: usize) -> (RequestBuffer, [usize; 2]) {
        let long = keys.iter().map(String::len).sum::<usize>() + ENCODED_TOKEN;
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
pub(super) const ENCODED_TOKEN: usize = 40;

/// Returns the script for this operation.
pub(crate) fn script(operation: Operation) -> &'static Script {
    &scripts()[operation as usize]
}

/// Returns all scripts, in the order of [`Operation`].
///
/// Threads that call this first at the same time each create them, and one result is kept. With a lock instead, a
/// process that is forked meanwhile would find it locked forever.
pub(crate) fn scripts() -> &'static [Script; 12] {
    static SCRIPTS: OnceBox<[Script; 12]> = OnceBox::new();
    SCRIPTS.get_or_init(|| Box::new(all()))
}

fn all() -> [Script; 12] {
    // A writer's vote is that of a mutex behind the turn of waiting readers.
    let write = concat!(include_str!("lua/acquire_write.lua"), include_str!("lua/acquire.lua"));
    [
        Script::new(Operation::Acquire, include_str!("lua/acquire.lua")),
        Script::new(Operation::Extend, include_str!("lua/extend.lua")),
        Script::new(Operation::ExtendMany, include_str!("lua/extend_many.lua")),
        Script::new(Operation::Release, include_str!("lua/release.lua")),
        Script::new(Operation::ReleaseMany, include_str!("lua/release_many.lua")),
        Script::new(Operation::Inspect, include_str!("lua/inspect.lua")),
        Script::new(Operation::AcquireSlots, include_str!("lua/acquire_slots.lua")),
        Script::new(Operation::AcquireRead, include_str!("lua/acquire_read.lua")),
        Script::new(Operation::ExtendRead, include_str!("lua/extend_read.lua")),
        Script::new(Operation::ReleaseRead, include_str!("lua/release_read.lua")),
        Script::new(Operation::AcquireWrite, write),
        Script::new(Operation::Keys, include_str!("lua/keys.lua")),
    ]
}
