//! Checks at connect what the server's user may do. Without `PEXPIRE` a lease would be granted and never renewed.
//! Without `EVALSHA` (or a scriptless substitute) it could not be released.
//!
//! Each command is tried on a key that does not exist. It changes nothing, and succeeds if it is allowed. The handshake
//! is pipelined, so these commands cost no round trip. They come before tracking, so that the server does not track the
//! key. The requirements of options ([`Durability`]) are checked together with them.

use redis::{Cmd, ServerError, Value, cmd};
use uuid::Uuid;

use crate::node::Fault;
use crate::node::redis::commands::durability::Durability;
use crate::node::redis::commands::errors::{is_missing, text_of, without_arguments};
use crate::node::redis::commands::reply;
use crate::node::redis::commands::scriptless::Delete;
use crate::node::redis::commands::scripts::{INSPECT, scripts};

/// A command that only saves work. A connection whose user may not run it sends other commands with the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalCommand {
    /// `GETRANGE`, which reads the owner after an attempt. The acquire script replaces both.
    GetRange,
    /// `MGET`, which reads the owners of several keys.
    MGet,
    /// `EXISTS`, which makes the server track several keys.
    Exists,
    /// `CLIENT CACHING`, which excludes a read from tracking. The server then tracks the key until its next change.
    Caching,
    /// `PING`, which checks a connection. `HELLO` replaces it, which needs no permission.
    Ping,
}

impl OptionalCommand {
    /// The name in the errors of servers.
    fn name(self) -> &'static str {
        match self {
            Self::GetRange => "GETRANGE",
            Self::MGet => "MGET",
            Self::Exists => "EXISTS",
            Self::Caching => "CLIENT",
            Self::Ping => "PING",
        }
    }
}

/// The optional commands that a server refused during the handshake. The connection does not send them again.
#[derive(Clone, Copy, Default)]
pub(crate) struct RefusedCommands([bool; 5]);

impl RefusedCommands {
    /// Records the reply to a trial.
    pub(crate) fn note(&mut self, command: OptionalCommand, answer: &Value, answered: bool) {
        self.0[command as usize] |= is_refused(command.name(), answer, answered);
    }

    pub(crate) fn contains(self, command: OptionalCommand) -> bool {
        self.0[command as usize]
    }
}

/// What the options of a client require of a server and its user.
#[derive(Clone)]
pub(crate) struct Needs {
    /// The prefix of every key. Permissions are tried on a key with this prefix.
    pub(crate) key_prefix: String,
    /// The durability of a grant.
    pub(crate) durability: Durability,
    /// Whether locks use scripts.
    pub(crate) scripts: bool,
}

impl Needs {
    /// Returns the commands to try, by name. The last one for scripts requires that they are loaded. `digests` means
    /// that the server stores scripts.
    pub(crate) fn trials(&self, digests: bool) -> Vec<(&'static str, Cmd)> {
        let key = self.key();
        let mut trials =
            if self.scripts { self.by_script(&key, digests) } else { self.without_scripts(&key) };
        trials.extend(self.durability.trial());
        trials
    }

    /// Returns the optional commands to try that read keys. `minimal` returns only those of every acquire.
    pub(crate) fn optional_reads(&self, minimal: bool) -> Vec<(OptionalCommand, Cmd)> {
        let key = self.key();
        let read = |command: OptionalCommand| (command, cmd(command.name()).arg(&key).clone());
        let (_, mut range) = read(OptionalCommand::GetRange);
        // Without scripts every lock needs it.
        let mut reads = vec![(OptionalCommand::GetRange, range.arg(&[0, 1]).clone())];
        reads.retain(|_| self.scripts);
        if !minimal {
            reads.push(read(OptionalCommand::MGet));
            reads.extend(self.scripts.then(|| read(OptionalCommand::Exists)));
        }
        reads
    }

    /// Builds the call of a script in full that changes nothing.
    pub(crate) fn eval(&self) -> Cmd {
        cmd("EVAL").arg(&scripts()[INSPECT].text).arg(1).arg(self.key()).clone()
    }

    /// Returns the compare-and-delete commands to try. Scripts need none.
    pub(crate) fn deletes(&self) -> Vec<(Delete, Cmd)> {
        let (key, wanted) = (self.key(), Delete::ALL.into_iter().filter(|_| !self.scripts));
        wanted.map(|by| (by, by.trial(&key))).collect()
    }

    /// Selects the compare-and-delete command by the replies, or `None` for the script. `named` means that `PING`
    /// returns its argument, which such a delete needs for its echo.
    pub(crate) fn delete(
        &self,
        answers: &[(Delete, Value)],
        named: bool,
        answered: bool,
    ) -> Result<Option<Delete>, Fault> {
        if self.scripts {
            return Ok(None);
        }
        let known = answers.iter().find(|(by, answer)| is_known(by.name(), answer, answered));
        if known.is_some() && named {
            return Ok(known.map(|(by, _)| *by));
        }
        if known.is_some() {
            return Err(Fault::unsupported(
                "scripts is off, but PING does not return its argument, which is needed to match replies. Turn \
                 scripts on, or use another server",
            ));
        }
        // The server is unsuitable only if it knows none of the commands. It may also be loading, or refuse this user.
        let unknown = |answer: &Value| matches!(answer, Value::ServerError(error) if is_missing(error, answered));
        let other = answers.iter().find(|(_, answer)| !unknown(answer));
        Err(other.map_or_else(
            || {
                Fault::unsupported(
                    "scripts is off, but the server has neither DELIFEQ (Valkey 9) nor DELEX (Redis 8.4), which \
                     release locks without a script. Turn scripts on, or use such a server",
                )
            },
            |(by, answer)| denied(by.name(), answer, answered).unwrap_or_else(|| reply::unexpected(answer)),
        ))
    }

    /// Returns an error if the server or its user cannot run this command. `answered` means that the server replied to
    /// another trial ([`is_missing`]).
    pub(crate) fn lack(&self, name: &str, answer: &Value, answered: bool) -> Option<Fault> {
        if name == self.durability.name() {
            self.durability.unmet(answer)
        } else {
            denied(name, answer, answered)
        }
    }

    /// Returns a random key, which does not exist. It has the prefix, because permissions may depend on key patterns.
    fn key(&self) -> String {
        format!("{}redlock-rights-{}", self.key_prefix, Uuid::new_v4().simple())
    }

    /// Returns the commands of every lock with scripts.
    fn by_script(&self, key: &str, digests: bool) -> Vec<(&'static str, Cmd)> {
        let on = |name: &str| cmd(name).arg(key).clone();
        let evalsha = || cmd("EVALSHA").arg(&scripts()[INSPECT].digest).arg(1).arg(key).clone();
        vec![
            ("GET", on("GET")),
            // With XX, nothing is set for a missing key.
            ("SET", on("SET").arg("x").arg("XX").clone()),
            ("DEL", on("DEL")),
            ("PTTL", on("PTTL")),
            ("PEXPIRE", on("PEXPIRE").arg(1).clone()),
            if digests { ("EVALSHA", evalsha()) } else { ("EVAL", self.eval()) },
        ]
    }

    /// Returns the commands of every lock without scripts.
    fn without_scripts(&self, key: &str) -> Vec<(&'static str, Cmd)> {
        let on = |name: &str| cmd(name).arg(key).clone();
        let set = on("SET").arg("x").clone();
        let durable = !self.durability.is_none();
        let only_if = if durable { vec!["IFEQ", "x", "KEEPTTL"] } else { vec!["XX"] };
        vec![
            ("GETRANGE", on("GETRANGE").arg(&[0, 1]).clone()),
            ("SET", set.clone().arg(only_if).clone()),
            ("PTTL", on("PTTL")),
            ("PEXPIRE", on("PEXPIRE").arg(1).arg("GT").clone()),
            ("MULTI", cmd("MULTI")),
            ("EXEC", cmd("EXEC")),
        ]
    }
}

/// Whether the server knows the command and its user may run it, although perhaps not for this key.
fn is_known(name: &str, answer: &Value, answered: bool) -> bool {
    match answer {
        Value::Int(_) => true,
        // In a cluster, the slot of the key may belong to another server, or to none.
        Value::ServerError(error) => match error.code() {
            "MOVED" | "ASK" | "CLUSTERDOWN" => true,
            "NOPERM" => denied(name, answer, answered).is_none(),
            _ => false,
        },
        _ => false,
    }
}

/// Whether the command is denied or missing. A denied key does not matter, because the keys of locks may be allowed.
fn is_refused(name: &str, answer: &Value, answered: bool) -> bool {
    let Value::ServerError(error) = answer else { return false };
    is_denied(name, error) || is_missing(error, answered)
}

/// Whether the user may not run the command.
fn is_denied(name: &str, error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    // The text names what was denied: a command by its name in quotes, or a key.
    let about = details.contains(&format!("'{}", name.to_lowercase()));
    // For `EXEC`, the denial is part of another error.
    (error.code() == "NOPERM" || details.contains("NOPERM")) && about
}

/// Returns an error if the command is denied or missing ([`is_refused`]).
fn denied(name: &str, answer: &Value, answered: bool) -> Option<Fault> {
    let Value::ServerError(error) = answer else { return None };
    if is_denied(name, error) {
        let text = format!("the node's user may not run {name}, which every lock needs: ");
        let details = error.details().unwrap_or_default();
        let fault = Fault::new(text)
            .saying(details, " (the page Security of the documentation lists all rights)");
        return Some(fault.refused());
    }
    is_missing(error, answered).then(|| {
        let text = format!(
            "the server does not support {name}, which every lock needs (a proxy or rename-command may hide it): "
        );
        Fault::unsupported(text).saying(without_arguments(&text_of(error)), "")
    })
}

/// Whether the server replied to a trial on the key without an error. A proxy does so only if its server is up.
pub(crate) fn is_answer(name: &str, answer: &Value) -> bool {
    const ON_KEY: [&str; 6] = ["DEL", "GET", "GETRANGE", "PEXPIRE", "PTTL", "SET"];
    ON_KEY.contains(&name) && !matches!(answer, Value::ServerError(_))
}
