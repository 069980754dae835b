//! The features that locks can do without, of a server or of a proxy in front of it.

use super::scripts::PING;

/// A command or another feature that locks can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Hello,
    /// All features that locks do not need: connection names, `INFO`, `SCRIPT`, `CLIENT TRACKING`.
    Extras,
    /// Without it the server sends no notifications.
    Tracking,
    Digests,
    /// The uptime in `INFO`, which a restart guard needs. Without it the server takes no first vote.
    Uptime,
    /// Reads the owner after an attempt. The acquire script replaces both.
    GetRange,
    /// Reads the owners of several keys.
    MGet,
    /// Makes the server track several keys.
    Exists,
    /// Excludes a read from tracking. Without it the server tracks the key until its next change.
    Caching,
    /// Checks a connection. `HELLO` replaces it, which needs no permission.
    Ping,
}

/// Each feature in the order above: its command in logs and errors of servers, and the consequence of its absence, if
/// that is logged.
const FEATURES: [(&str, Option<&str>); 10] = [
    ("HELLO", Some("connections use RESP2")),
    ("CLIENT SETNAME, INFO", Some("the server's age is unknown")),
    ("CLIENT TRACKING", Some("waiting callers poll, and only a renewal detects a loss")),
    ("SCRIPT LOAD", Some("scripts are sent in full by EVAL")),
    ("INFO", None),
    ("GETRANGE", None),
    ("MGET", None),
    ("EXISTS", None),
    ("CLIENT", None),
    ("PING", None),
];

impl Feature {
    pub(crate) fn command(self) -> &'static str {
        FEATURES[self as usize].0
    }
}

/// What a server supports, and its user may use. At first, that is assumed of everything.
#[derive(Clone, Copy)]
pub(crate) struct Capabilities {
    supported: [bool; FEATURES.len()],
    /// Whether the server may support more after all, because it did not report an unknown command.
    pub(crate) doubtful: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { supported: [true; FEATURES.len()], doubtful: false }
    }
}

impl Capabilities {
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.supported[feature as usize]
    }

    pub(crate) fn set(&mut self, feature: Feature, supported: bool) {
        self.supported[feature as usize] = supported;
    }

    /// Whether it has a feature that `other` does not have. Commands that only save work do not count.
    pub(crate) fn improves(&self, other: &Self) -> bool {
        let mut both = self.supported.iter().zip(other.supported).take(Feature::GetRange as usize);
        both.any(|(has, before)| *has && !before)
    }

    /// Returns the command that checks a connection, encoded. `HELLO` changes nothing, and needs no permission.
    pub(crate) fn probe(&self) -> &'static [u8] {
        if !self.has(Feature::Ping) && self.has(Feature::Hello) {
            b"*1\r\n$5\r\nHELLO\r\n"
        } else {
            PING
        }
    }

    /// Returns the missing commands and the consequences, or `None` if nothing is missing that is logged.
    pub(crate) fn described(&self) -> Option<(String, String)> {
        let missing = FEATURES.iter().zip(self.supported).filter(|(_, supported)| !supported);
        let logged = missing.filter_map(|((command, effect), _)| Some((*command, (*effect)?)));
        let (commands, effects): (Vec<_>, Vec<_>) = logged.unzip();
        (!commands.is_empty()).then(|| (commands.join(", "), effects.join(", ")))
    }
}
