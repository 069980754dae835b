//! The scripts and their digests.

use std::sync::LazyLock;

use redis::{Cmd, Script as Digest, cmd};

pub(super) struct Script {
    pub(super) text: String,
    digest: String,
}

impl Script {
    fn new(text: &str) -> Self {
        let text = text.replace("--@values\n", include_str!("scripts/values.lua"));
        let digest = Digest::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    /// The call of this script on these keys; arguments follow.
    pub(super) fn on(&self, keys: &[String]) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(&self.digest).arg(keys.len()).arg(keys);
        command
    }
}

pub(super) const ACQUIRE: usize = 0;
pub(super) const EXTEND: usize = 1;
pub(super) const RELEASE: usize = 2;
pub(super) const INSPECT: usize = 3;
pub(super) const FORCE: usize = 4;

pub(super) static SCRIPTS: LazyLock<[Script; 5]> = LazyLock::new(|| {
    [
        Script::new(include_str!("scripts/acquire.lua")),
        Script::new(include_str!("scripts/extend.lua")),
        Script::new(include_str!("scripts/release.lua")),
        Script::new(include_str!("scripts/inspect.lua")),
        Script::new(include_str!("scripts/force.lua")),
    ]
});
