//! Defines the Lua scripts and their digests.
//!
//! Each `.lua` file begins with its contract. Scripts are loaded at connect and called by digest. They are loaded again
//! if a server has lost them (`NOSCRIPT`). Running a script twice is safe, because commands may be sent again and
//! deletes repeated.

use once_cell::race::OnceBox;
use redis::Script as Digest;

use super::request_buffer::RequestBuffer;

/// A script and its digest.
pub(super) struct Script {
    /// The text to load.
    pub(super) text: String,
    /// The SHA-1 of the text, by which `EVALSHA` calls it.
    pub(super) digest: String,
    /// The encoded first two words of its call.
    name: Vec<u8>,
}

impl Script {
    /// Creates a script. Shared functions replace the line `--@values`, because scripts cannot call each other.
    fn new(text: &str) -> Self {
        let text = text.replace("--@values\n", include_str!("values.lua"));
        let digest = Digest::new(&text).get_hash().to_owned();
        let mut call = RequestBuffer::with_room(2, digest.len());
        call.word("EVALSHA").word(&digest);
        Self { text, digest, name: call.bytes() }
    }

    /// Begins the call on these keys. The arguments follow.
    pub(super) fn on(&self, keys: &[String], arguments: usize) -> RequestBuffer {
        let long = keys.iter().map(String::len).sum::<usize>() + TOKEN;
        let mut call = self.call(keys.len(), arguments, long);
        call.words(keys);
        call
    }

    /// Begins the call on this number of keys and arguments, which follow. `long` is their total length.
    pub(super) fn call(&self, keys: usize, arguments: usize, long: usize) -> RequestBuffer {
        let words = 3 + keys + arguments;
        let mut call = RequestBuffer::with_room(words, long + self.name.len());
        call.request(words).packed(&self.name).number(keys as u64);
        call
    }
}

/// Converts a call by digest into a call with the full script, for servers that do not store scripts. `None` for other
/// commands.
pub(super) fn in_full<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
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

/// The longest argument of a script.
const TOKEN: usize = 40;

/// Acquires keys. This and the following constants are positions in [`scripts`].
pub(super) const ACQUIRE: usize = 0;
/// Extends keys of the claim.
pub(super) const EXTEND: usize = 1;
/// Extends keys of many leases.
pub(super) const EXTEND_MANY: usize = 2;
/// Deletes keys of the claim.
pub(super) const RELEASE: usize = 3;
/// Deletes keys of many leases.
pub(super) const RELEASE_MANY: usize = 4;
/// Reads the holder of a key.
pub(super) const INSPECT: usize = 5;
/// Deletes keys regardless of their owner.
pub(super) const FORCE: usize = 6;

/// Returns all scripts, in the order of these constants.
///
/// Threads that call this first at the same time each create them, and one result is kept. With a lock instead, a
/// process that is forked meanwhile would find it locked forever.
pub(super) fn scripts() -> &'static [Script; 7] {
    static SCRIPTS: OnceBox<[Script; 7]> = OnceBox::new();
    SCRIPTS.get_or_init(|| Box::new(all()))
}

fn all() -> [Script; 7] {
    [
        Script::new(include_str!("acquire.lua")),
        Script::new(include_str!("extend.lua")),
        Script::new(include_str!("extend_many.lua")),
        Script::new(include_str!("release.lua")),
        Script::new(include_str!("release_many.lua")),
        Script::new(include_str!("inspect.lua")),
        Script::new(include_str!("force.lua")),
    ]
}
