//! Selects how a node gets its commands: with scripts, without scripts, or whichever costs the server less.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::commands::{acquire_script, extend_script, force, inspect_script, release_script};
use super::link::Link;
use super::native::{self, Delete};
use super::protocol::Command;
use super::reply::{self, Answer};
use super::rights::Needs;
use crate::node::{Claim, Fencing, VoteParams};

/// The selection for one node.
#[derive(Clone)]
pub(super) struct Ways {
    /// `None` selects the cheaper way.
    scripts: Option<bool>,
    /// Whether each vote must write.
    durable: bool,
    /// The features of the server.
    link: Arc<Link>,
}

impl Ways {
    /// Creates the selection from the client's options.
    pub(super) fn of(needs: &Needs, link: &Arc<Link>) -> Self {
        let (scripts, durable) = (needs.scripts, !needs.durability.is_none());
        Self { scripts, durable, link: Arc::clone(link) }
    }

    /// Whether scripts are never used.
    pub(super) fn without_scripts(&self) -> bool {
        self.scripts == Some(false)
    }

    /// Whether this command works without scripts. Unsupported combinations are refused earlier. Otherwise the server
    /// would refuse the script.
    fn is_native(&self, keys: &[String], fencing: Fencing) -> bool {
        self.without_scripts() && keys.len() == 1 && fencing == Fencing::Off
    }

    /// Builds an acquire that also reports the holder, in one request. `sent` means that this is the second command of
    /// the vote.
    pub(super) fn acquire(&self, claim: &Claim, params: VoteParams, sent: bool) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { native::acquire } else { acquire_script };
        ask(claim, params, sent)
    }

    /// Builds an extend.
    pub(super) fn extend(&self, claim: &Claim, params: VoteParams) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { native::extend } else { extend_script };
        ask(claim, params, self.durable && !params.check)
    }

    /// Builds the delete that costs the server least, as far as known. Another form may be needed when it is sent.
    pub(super) fn delete(&self, claim: &Claim, owed: Duration) -> Command {
        let by = self.link.deletes_by().or(self.without_scripts().then_some(Delete::IfEq));
        match by.filter(|_| claim.keys.len() == 1) {
            Some(by) => native::release(claim, owed, by),
            None => release_script(claim, owed, None),
        }
    }

    /// Builds the release of keys that remain for `stay`. They are not tracked, because no caller waits for them.
    pub(super) fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Command {
        let native = self.is_native(&claim.keys, Fencing::Off);
        let command = if native {
            native::shorten(claim, owed, stay)
        } else {
            release_script(claim, owed, Some(stay))
        };
        Command { untracked: true, ..command }
    }

    /// Builds the read of a key's holder.
    pub(super) fn inspect(&self, key: &str) -> Command {
        if self.without_scripts() { native::inspect(key) } else { inspect_script(key) }
    }

    /// Builds the forced delete, and returns the parser of its reply.
    pub(super) fn force(&self, keys: &[String]) -> (Command, fn(&Value) -> Answer<bool>) {
        if self.is_native(keys, Fencing::Off) {
            (native::force(keys), native::forced)
        } else {
            (force(keys), reply::count)
        }
    }
}
