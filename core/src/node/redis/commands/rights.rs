//! Checks at connect what the server's user may do. Without `PEXPIRE` a lease would be granted and never renewed.
//! Without `EVALSHA` it could not be released.
//!
//! Each command is tried on a key that does not exist. It changes nothing, and succeeds if it is allowed. The handshake
//! is pipelined, so these commands cost no round trip. They come before tracking, so that the server does not track the
//! key. The requirements of options ([`Durability`]) are checked together with them.

use redis::{Cmd, ServerError, Value, cmd};
use uuid::Uuid;

use crate::node::Fault;
use crate::node::redis::commands::capabilities::Feature;
use crate::node::redis::commands::durability::Durability;
use crate::node::redis::commands::errors::{is_missing, text_of, without_arguments};
use crate::node::redis::commands::scripts::{INSPECT, scripts};

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
        let evalsha = || cmd("EVALSHA").arg(&scripts()[INSPECT].digest).arg(1).arg(&key).clone();
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
        cmd("EVAL").arg(&scripts()[INSPECT].text).arg(1).arg(self.key()).clone()
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
        format!("{}redlock-rights-{}", self.key_prefix, Uuid::new_v4().simple())
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
