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

use std::time::Duration;

use super::connect::rights::Needs;
use super::protocol::{Command, Purpose};
use crate::node::{Claim, Fencing, ReleaseMode, VoteParams};
use scripts::{acquire_script, extend_script, inspect_script, release_script};

/// The selection for one node.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    without_scripts: bool,
    /// Whether each vote must write.
    durable: bool,
}

impl Dialect {
    pub(crate) fn of(needs: &Needs) -> Self {
        Self { without_scripts: !needs.scripts, durable: !needs.durability.is_none() }
    }

    /// Whether scripts are never used.
    pub(crate) fn without_scripts(self) -> bool {
        self.without_scripts
    }

    /// Whether this command works without scripts. Unsupported combinations are refused earlier. Otherwise the server
    /// would refuse the script.
    fn is_native(self, keys: &[String], fencing: Fencing) -> bool {
        self.without_scripts && keys.len() == 1 && fencing == Fencing::Off
    }

    /// Builds an acquire that also reports the holder, in one request. `sent` means that this is the second command of
    /// the vote.
    pub(crate) fn acquire(self, claim: &Claim, params: VoteParams, sent: bool) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { scriptless::acquire } else { acquire_script };
        ask(claim, params, sent)
    }

    pub(crate) fn extend(self, claim: &Claim, params: VoteParams) -> Command {
        let native = self.is_native(&claim.keys, params.fencing);
        let ask = if native { scriptless::extend } else { extend_script };
        ask(claim, params, self.durable && !params.check)
    }

    /// Builds the release. A delete gets the form that the server supports when it is sent
    /// ([`scriptless::converted_delete`]). Keys that remain are not tracked, because no caller waits for them.
    pub(crate) fn release(self, claim: &Claim, lifetime: Duration, how: ReleaseMode) -> Command {
        let command = match how {
            ReleaseMode::Stay(stay) if self.is_native(&claim.keys, Fencing::Off) => {
                scriptless::shorten(claim, lifetime, stay)
            }
            ReleaseMode::Stay(stay) => release_script(claim, lifetime, Some(stay)),
            ReleaseMode::Delete | ReleaseMode::DeleteLate | ReleaseMode::Undo => {
                release_script(claim, lifetime, None)
            }
        };
        let mut command = Command {
            untracked: matches!(how, ReleaseMode::DeleteLate | ReleaseMode::Stay(_)),
            ..command
        };
        if let Purpose::Delete { of_lease, .. } = &mut command.purpose {
            *of_lease = how != ReleaseMode::Undo;
        }
        command
    }

    pub(crate) fn inspect(self, key: &str) -> Command {
        if self.without_scripts { scriptless::inspect(key) } else { inspect_script(key) }
    }
}
