//! The scripts and their digests.
//!
//! Their contracts stand at their heads, in the `.lua` files. Each is loaded at connect and called by its digest; a
//! server that has lost them is given them again (`NOSCRIPT`). Each is safe to run twice: a question may be asked
//! again, a delete repeated.

use once_cell::race::OnceBox;
use redis::Script as Digest;

use super::packed::Packed;

/// A script, and what the server calls it by.
pub(super) struct Script {
    /// As it is loaded.
    pub(super) text: String,
    /// SHA-1 of the text, which is its name to `EVALSHA`.
    pub(super) digest: String,
    /// The first two words of its call.
    name: Vec<u8>,
}

impl Script {
    /// What several scripts share stands once, and is put in where they say `--@values`: scripts cannot call
    /// each other.
    fn new(text: &str) -> Self {
        let text = text.replace("--@values\n", include_str!("values.lua"));
        let digest = Digest::new(&text).get_hash().to_owned();
        let mut call = Packed::with_room(2, digest.len());
        call.word("EVALSHA").word(&digest);
        Self { text, digest, name: call.bytes() }
    }

    /// The call of this script on these keys; so many arguments follow.
    pub(super) fn on(&self, keys: &[String], arguments: usize) -> Packed {
        let long = keys.iter().map(String::len).sum::<usize>() + TOKEN;
        let mut call = self.call(keys.len(), arguments, long);
        call.words(keys);
        call
    }

    /// The call on so many keys with so many arguments, which follow: so many bytes in all.
    pub(super) fn call(&self, keys: usize, arguments: usize, long: usize) -> Packed {
        let words = 3 + keys + arguments;
        let mut call = Packed::with_room(words, long + self.name.len());
        call.request(words).packed(&self.name).number(keys as u64);
        call
    }
}

/// A call by digest as a call with the script in full, for servers that keep no scripts; `None`: it is no such call.
pub(super) fn in_full<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    words.next().filter(|name| *name == b"EVALSHA")?;
    let digest = words.next()?;
    let script = scripts().iter().find(|script| script.digest.as_bytes() == digest)?;
    let rest: Vec<_> = words.collect();
    let long = rest.iter().map(|word| word.len()).sum::<usize>() + script.text.len();
    let mut call = Packed::with_room(2 + rest.len(), long);
    call.request(2 + rest.len()).word("EVAL").word(&script.text);
    rest.iter().for_each(|word| {
        call.word(word);
    });
    Some(call.bytes())
}

/// The longest argument of a script.
const TOKEN: usize = 40;

/// Makes keys ours. This and the next are where each script stands in [`scripts`].
pub(super) const ACQUIRE: usize = 0;
/// Lengthens what is ours.
pub(super) const EXTEND: usize = 1;
/// Lengthens what is ours, of many leases.
pub(super) const EXTEND_MANY: usize = 2;
/// Deletes what is ours.
pub(super) const RELEASE: usize = 3;
/// Deletes what is ours, of many leases.
pub(super) const RELEASE_MANY: usize = 4;
/// Says who has a key.
pub(super) const INSPECT: usize = 5;
/// Deletes whatever is there.
pub(super) const FORCE: usize = 6;

/// All scripts, by the numbers above.
///
/// Threads that come first at the same time each make them, and one result stays. With a lock, a process that is forked
/// meanwhile would find it locked forever.
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
