//! What a server, or a proxy in front of it, supports, and what its user may do: the features that locks can do
//! without, and those that they need. Without `PEXPIRE` a lease would be granted and never renewed. Without `EVALSHA`
//! it could not be released.
//!
//! Each command is tried at connect on a key that does not exist. It changes nothing, and succeeds if it is allowed.
//! The handshake is pipelined, so these commands cost no round trip. They come before tracking, so that the server
//! does not track the key. The requirements of options ([`Durability`]) are checked together with them.

use redis::{Cmd, ServerError, Value, cmd};

use super::durability::Durability;
use super::errors::{is_missing, text_of, without_arguments};
use super::scripts::{Operation, PING, script};
use crate::node::Fault;
use crate::runtime::environment;

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
    /// Returns those without which no lock works. Every server that can be used has them.
    pub(crate) fn minimal() -> Self {
        let mut minimal = Self::default();
        minimal.set(Feature::Hello, false);
        minimal.set(Feature::Extras, false);
        minimal
    }

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

/// What the options of a client require of a server and its user.
#[derive(Clone)]
pub(crate) struct Needs {
    /// The prefix of every key. Permissions are tried on a key with this prefix.
    pub(crate) key_prefix: String,
    /// The durability of a grant.
    pub(crate) durability: Durability,
}

impl Needs {
    /// Returns the commands to try, by name: those of every lock, and those of options. `digests` means that the server
    /// stores scripts, which must be loaded before `EVALSHA`.
    pub(crate) fn trials(&self, digests: bool) -> Vec<(&'static str, Cmd)> {
        let key = self.key();
        let on = |name: &str| cmd(name).arg(&key).clone();
        let evalsha =
            || cmd("EVALSHA").arg(&script(Operation::Inspect).digest).arg(1).arg(&key).clone();
        let mut trials = vec![
            ("GET", on("GET")),
            // With XX, nothing is set for a missing key.
            ("SET", on("SET").arg("x").arg("XX").clone()),
            ("DEL", on("DEL")),
            ("PTTL", on("PTTL")),
            ("PEXPIRE", on("PEXPIRE").arg(1).clone()),
            if digests { ("EVALSHA", evalsha()) } else { ("EVAL", self.eval()) },
        ];
        trials.extend(self.durability.trial());
        trials
    }

    /// Returns the optional commands to try that read keys. `minimal` returns only those of every acquire.
    pub(crate) fn optional_reads(&self, minimal: bool) -> Vec<(Feature, Cmd)> {
        let key = self.key();
        let read = |feature: Feature| (feature, cmd(feature.command()).arg(&key).clone());
        let (_, mut range) = read(Feature::GetRange);
        let mut reads = vec![(Feature::GetRange, range.arg(&[0, 1]).clone())];
        if !minimal {
            reads.extend([read(Feature::MGet), read(Feature::Exists)]);
        }
        reads
    }

    /// Builds the call of a script in full that changes nothing.
    pub(crate) fn eval(&self) -> Cmd {
        cmd("EVAL").arg(&script(Operation::Inspect).text).arg(1).arg(self.key()).clone()
    }

    /// Returns an error if the server or its user cannot run this command. `replied` means that the server replied to
    /// another trial ([`is_missing`]).
    pub(crate) fn lack(&self, name: &str, reply: &Value, replied: bool) -> Option<Fault> {
        if name == self.durability.name() {
            self.durability.unmet(reply, replied)
        } else {
            denied(name, reply, replied)
        }
    }

    /// Returns a random key, which does not exist. It has the prefix, because permissions may depend on key patterns.
    fn key(&self) -> String {
        format!("{}redlock-rights-{}", self.key_prefix, environment::new_id().simple())
    }
}

/// Whether the command is denied or missing. A denied key does not matter, because the keys of locks may be allowed.
pub(crate) fn is_refused(name: &str, reply: &Value, replied: bool) -> bool {
    let Value::ServerError(error) = reply else { return false };
    is_denied(name, error) || is_missing(error, replied)
}

/// Whether the user may not run the command.
fn is_denied(name: &str, error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    // The text names what was denied: a command by its name in quotes, or a key.
    let about = details.contains(&format!("'{}", name.to_lowercase()));
    error.code() == "NOPERM" && about
}

/// Returns an error if the command is denied or missing ([`is_refused`]).
fn denied(name: &str, reply: &Value, replied: bool) -> Option<Fault> {
    let Value::ServerError(error) = reply else { return None };
    if is_denied(name, error) {
        let text = format!("the node's user may not run {name}, which every lock needs: ");
        let details = error.details().unwrap_or_default();
        let fault = Fault::new(text)
            .saying(details, " (the page Security of the documentation lists all rights)");
        return Some(fault.refused());
    }
    is_missing(error, replied).then(|| {
        let text = format!(
            "the server does not support {name}, which every lock needs (a proxy or rename-command may hide it): "
        );
        Fault::unsupported(text).saying(without_arguments(&text_of(error)), "")
    })
}

/// Whether the server replied to a trial on the key without an error. A proxy does so only if its server is up.
pub(crate) fn is_reply(name: &str, reply: &Value) -> bool {
    const ON_KEY: [&str; 6] = ["DEL", "GET", "GETRANGE", "PEXPIRE", "PTTL", "SET"];
    ON_KEY.contains(&name) && !matches!(reply, Value::ServerError(_))
}
