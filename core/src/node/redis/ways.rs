//! In which way a node is asked: by scripts, without them, or whichever costs the server less.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::commands::{acquire_script, extend_script, force, inspect_script, release_script};
use super::in_flight::Command;
use super::link::Link;
use super::native::{self, Delete};
use super::reply::{self, Answer};
use super::rights::Needs;
use crate::node::{Claim, Fencing, VoteParams};

/// One node's way.
#[derive(Clone)]
pub(super) struct Ways {
    /// `None`: whichever costs less.
    scripts: Option<bool>,
    /// Each vote must write.
    durable: bool,
    /// What its server can do.
    link: Arc<Link>,
}

impl Ways {
    /// As a client's options want it.
    pub(super) fn of(needs: &Needs, link: &Arc<Link>) -> Self {
        let (scripts, durable) = (needs.scripts, !needs.durability.is_none());
        Self { scripts, durable, link: Arc::clone(link) }
    }

    /// Whether nothing is asked by script.
    pub(super) fn without_scripts(&self) -> bool {
        self.scripts == Some(false)
    }

    /// Whether this is asked without them. What cannot be is refused before anything is sent; were it not, the server
    /// would refuse the script.
    fn is_native(&self, keys: &[String], fencing: Fencing) -> bool {
        self.without_scripts() && keys.len() == 1 && fencing == Fencing::Off
    }

    /// The keys, or who is in the way: all in one question. `sent`: it is the second one for this vote.
    pub(super) fn acquire(&self, claim: &Claim, params: VoteParams, sent: bool) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { native::acquire } else { acquire_script };
        ask(claim, params, sent)
    }

    /// For longer.
    pub(super) fn extend(&self, claim: &Claim, params: VoteParams) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { native::extend } else { extend_script };
        ask(claim, params, self.durable && !params.check)
    }

    /// The delete that costs the server least, as far as it is known: by the time that this is sent it may be another.
    pub(super) fn delete(&self, claim: &Claim, owed: Duration) -> Command {
        let by = self.link.deletes_by().or(self.without_scripts().then_some(Delete::IfEq));
        match by.filter(|_| claim.keys.len() == 1) {
            Some(by) => native::release(claim, owed, by),
            None => release_script(claim, owed, None),
        }
    }

    /// The delete of keys that are to stay for so long. Nobody waits to be told of them.
    pub(super) fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Command {
        let native = self.is_native(&claim.keys, Fencing::Off);
        let command = if native {
            native::shorten(claim, owed, stay)
        } else {
            release_script(claim, owed, Some(stay))
        };
        Command { untracked: true, ..command }
    }

    /// Who has the key.
    pub(super) fn inspect(&self, key: &str) -> Command {
        if self.without_scripts() { native::inspect(key) } else { inspect_script(key) }
    }

    /// The delete of the keys whoever has them, and what its answer says.
    pub(super) fn force(&self, keys: &[String]) -> (Command, fn(&Value) -> Answer<bool>) {
        if self.is_native(keys, Fencing::Off) {
            (native::force(keys), native::forced)
        } else {
            (force(keys), reply::count)
        }
    }
}
