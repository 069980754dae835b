//! Defines what a lock asks a server: the bytes of each command, and the meaning of its reply.
//!
//! A node gets its commands with scripts ([`scripts`]), without ([`scriptless`]), or in the form that costs the server
//! less ([`Dialect`]). A reply is checked by its exact form ([`reply`]), and explained if it is an error ([`errors`]).

pub(super) mod compound_reply;
pub(super) mod durability;
pub(super) mod encode;
pub(super) mod errors;
pub(super) mod reply;
pub(super) mod scriptless;
pub(super) mod scripts;

use std::sync::Arc;
use std::time::Duration;

use super::connect::rights::Needs;
use super::link::Link;
use super::protocol::Command;
use crate::node::{Claim, Fencing, VoteParams};
use scriptless::Delete;
use scripts::{acquire_script, extend_script, inspect_script, release_script};

/// The selection for one node.
#[derive(Clone)]
pub(crate) struct Dialect {
    /// `None` selects the cheaper way.
    scripts: Option<bool>,
    /// Whether each vote must write.
    durable: bool,
    /// The features of the server.
    link: Arc<Link>,
}

impl Dialect {
    /// Creates the selection from the client's options.
    pub(crate) fn of(needs: &Needs, link: &Arc<Link>) -> Self {
        let (scripts, durable) = (needs.scripts, !needs.durability.is_none());
        Self { scripts, durable, link: Arc::clone(link) }
    }

    /// Whether scripts are never used.
    pub(crate) fn without_scripts(&self) -> bool {
        self.scripts == Some(false)
    }

    /// Whether this command works without scripts. Unsupported combinations are refused earlier. Otherwise the server
    /// would refuse the script.
    fn is_native(&self, keys: &[String], fencing: Fencing) -> bool {
        self.without_scripts() && keys.len() == 1 && fencing == Fencing::Off
    }

    /// Builds an acquire that also reports the holder, in one request. `sent` means that this is the second command of
    /// the vote.
    pub(crate) fn acquire(&self, claim: &Claim, params: VoteParams, sent: bool) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { scriptless::acquire } else { acquire_script };
        ask(claim, params, sent)
    }

    /// Builds an extend.
    pub(crate) fn extend(&self, claim: &Claim, params: VoteParams) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { scriptless::extend } else { extend_script };
        ask(claim, params, self.durable && !params.check)
    }

    /// Builds the delete that costs the server least, as far as known. Another form may be needed when it is sent.
    pub(crate) fn delete(&self, claim: &Claim, owed: Duration) -> Command {
        let by = self.link.deletes_by().or(self.without_scripts().then_some(Delete::IfEq));
        match by.filter(|_| claim.keys.len() == 1) {
            Some(by) => scriptless::release(claim, owed, by),
            None => release_script(claim, owed, None),
        }
    }

    /// Builds the release of keys that remain for `stay`. They are not tracked, because no caller waits for them.
    pub(crate) fn shorten(&self, claim: &Claim, owed: Duration, stay: Duration) -> Command {
        let native = self.is_native(&claim.keys, Fencing::Off);
        let command = if native {
            scriptless::shorten(claim, owed, stay)
        } else {
            release_script(claim, owed, Some(stay))
        };
        Command { untracked: true, ..command }
    }

    /// Builds the read of a key's holder.
    pub(crate) fn inspect(&self, key: &str) -> Command {
        if self.without_scripts() { scriptless::inspect(key) } else { inspect_script(key) }
    }
}
