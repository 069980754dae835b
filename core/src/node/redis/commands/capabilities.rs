//! What a server, or a proxy in front of it, does not support.

use super::rights::{OptionalCommand, RefusedCommands};
use super::scripts::PING;

/// The features that a connection does not use, because the server, or a proxy in front of it, does not support them.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be missing")]
pub(crate) struct Without {
    /// `HELLO`. The connection uses RESP2.
    pub(crate) hello: bool,
    /// All features that locks do not need: connection names, `INFO`, `SCRIPT`, `CLIENT TRACKING`.
    pub(crate) extras: bool,
    /// `CLIENT TRACKING`. Without it the server sends no notifications.
    pub(crate) tracking: bool,
    /// `SCRIPT LOAD` and `EVALSHA`. Scripts are sent in full.
    pub(crate) digests: bool,
    /// The uptime in `INFO`, which a restart guard needs. Without it the server takes no first vote.
    pub(crate) uptime: bool,
    /// Optional commands that the user may not run.
    pub(crate) refused: RefusedCommands,
    /// Whether the server may support one of them after all, because it did not report an unknown command.
    pub(crate) doubtful: bool,
}

impl Without {
    /// Returns which commands the handshake need not try, to open a connection like the one with these features.
    pub(crate) fn commands(self) -> Self {
        let Self { hello, extras, doubtful, .. } = self;
        Self { hello, extras, doubtful, ..Self::default() }
    }

    /// Whether a feature is used that `other` does not use.
    pub(crate) fn improves(self, other: Self) -> bool {
        let all = |of: Self| [of.hello, of.extras, of.tracking, of.digests, of.uptime];
        all(self).into_iter().zip(all(other)).any(|(missing, before)| before && !missing)
    }

    /// Returns the command that checks a connection, encoded. `HELLO` changes nothing, and needs no permission.
    pub(crate) fn probe(self) -> &'static [u8] {
        if self.refused.contains(OptionalCommand::Ping) && !self.hello {
            b"*1\r\n$5\r\nHELLO\r\n"
        } else {
            PING
        }
    }

    /// Returns the missing commands and the consequences, or `None` if nothing is missing.
    pub(crate) fn described(self) -> Option<(String, String)> {
        let missing = [
            (self.hello, "HELLO", None),
            (self.extras, "CLIENT SETNAME, INFO", Some("the server's age is unknown")),
            (
                self.tracking,
                "CLIENT TRACKING",
                Some("waiting callers poll, and a loss is only detected at the next renewal"),
            ),
            (self.digests, "SCRIPT LOAD", Some("scripts are sent in full by EVAL")),
        ];
        let missing: Vec<_> = missing.into_iter().filter(|(missing, ..)| *missing).collect();
        let commands: Vec<_> = missing.iter().map(|(_, command, _)| *command).collect();
        let effects: Vec<_> = missing.iter().filter_map(|(.., effect)| *effect).collect();
        (!missing.is_empty()).then(|| (commands.join(", "), effects.join(", ")))
    }
}
