//! What the server's user must be allowed to do, asked at connect: without `PEXPIRE` a lease would be granted, never
//! renewed, and end; without `EVALSHA`, or what does without, it could not be given back.
//!
//! Each command is tried on a key that nobody has: it changes nothing, and is no error where it is allowed. The
//! greeting is pipelined anyway, so some more questions cost nothing; they come before tracking, so that the server
//! remembers no key. What options ask of the server beyond that ([`Durability`]) is tried with them.

use redis::{Cmd, Value, cmd};
use uuid::Uuid;

use super::durability::Durability;
use super::native::Delete;
use super::refusal::{has_code, is_unsupported, without_arguments};
use super::reply;
use super::script::{INSPECT, scripts};
use crate::node::Fault;

/// What a client's options ask of a server and of its user.
#[derive(Clone)]
pub(crate) struct Needs {
    /// Before every key: what the server's user may do is tried below it.
    pub(crate) key_prefix: String,
    /// What must have become of a grant before it counts.
    pub(crate) durability: Durability,
    /// Whether locks are asked for by scripts; `None`: but for what the server does cheaper without.
    pub(crate) scripts: Option<bool>,
}

impl Needs {
    /// Whether scripts may be used at all.
    pub(super) fn scripts(&self) -> bool {
        self.scripts != Some(false)
    }

    /// The commands, by name; of a lock's own by script the last wants the scripts loaded. `digests`: the server keeps them.
    pub(super) fn trials(&self, digests: bool) -> Vec<(&'static str, Cmd)> {
        let key = self.key();
        let mut trials =
            if self.scripts() { by_script(&key, digests) } else { self.without_scripts(&key) };
        trials.extend(self.durability.trial());
        trials
    }

    /// A script in full, which changes nothing.
    pub(super) fn eval(&self) -> Cmd {
        eval(&self.key())
    }

    /// What is missing by the reply to [`Needs::eval`]. `fault`: why scripts cannot be called by their digests.
    pub(super) fn lack_eval(&self, answer: &Value, fault: Fault) -> Option<Fault> {
        self.lack("EVAL", answer).or_else(|| is_unsupported(answer).then_some(fault))
    }

    /// The ways to delete without a script that are worth knowing, each with what must be allowed beside it.
    pub(super) fn deletes(&self) -> Vec<(Delete, Cmd)> {
        let (key, scripts) = (self.key(), self.scripts);
        // Where there is a choice, only what was measured to be cheaper.
        let wanted = Delete::ALL.into_iter().filter(|by| match scripts {
            Some(scripts) => !scripts,
            None => *by == Delete::IfEq,
        });
        wanted.map(|by| (by, by.trial(&key))).collect()
    }

    /// How to delete without a script, by what the server said to each way; `None`: by script. `named`: it says `PING`
    /// back, by which such a delete is told from others.
    pub(super) fn delete(
        &self,
        answers: &[(Delete, Value)],
        named: bool,
    ) -> Result<Option<Delete>, Fault> {
        let known = answers.iter().find(|(by, answer)| is_known(by.name(), answer));
        if known.is_some() && named {
            return Ok(known.map(|(by, _)| *by));
        }
        if self.scripts() {
            return Ok(None);
        }
        if known.is_some() {
            return Err(Fault::unsupported(
                "scripts is off, and PING does not say back what it is given, by which answers are told apart: leave \
                 scripts on, or use a server that does",
            ));
        }
        // Only a server that knows none of them is the wrong one: others may be loading, or refuse this user.
        let other = answers.iter().find(|(_, answer)| !is_unknown(answer));
        Err(other.map_or_else(
            || {
                Fault::unsupported(
                    "scripts is off, and the server has neither DELIFEQ (Valkey 9) nor DELEX (Redis 8.4), by which locks \
                     are given back without one: leave scripts on, or use such a server",
                )
            },
            |(by, answer)| denied(by.name(), answer).unwrap_or_else(|| reply::unexpected(answer)),
        ))
    }

    /// A fault if the server, or its user, cannot do this.
    pub(super) fn lack(&self, name: &str, answer: &Value) -> Option<Fault> {
        if name == self.durability.name() {
            self.durability.unmet(answer)
        } else {
            denied(name, answer)
        }
    }

    /// Below the prefix, where rights by key pattern apply; random, so that it is nobody's.
    fn key(&self) -> String {
        format!("{}redlock-rights-{}", self.key_prefix, Uuid::new_v4().simple())
    }

    /// The commands of every lock without scripts.
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

/// The commands of every lock by script.
fn by_script(key: &str, digests: bool) -> Vec<(&'static str, Cmd)> {
    let on = |name: &str| cmd(name).arg(key).clone();
    let evalsha = || cmd("EVALSHA").arg(&scripts()[INSPECT].digest).arg(1).arg(key).clone();
    vec![
        ("GET", on("GET")),
        // XX: of a key that is not there nothing is set.
        ("SET", on("SET").arg("x").arg("XX").clone()),
        ("DEL", on("DEL")),
        ("PTTL", on("PTTL")),
        ("PEXPIRE", on("PEXPIRE").arg(1).clone()),
        if digests { ("EVALSHA", evalsha()) } else { ("EVAL", eval(key)) },
    ]
}

/// A script that reads this key, in full.
fn eval(key: &str) -> Cmd {
    cmd("EVAL").arg(&scripts()[INSPECT].text).arg(1).arg(key).clone()
}

/// Whether the server knows the command and its user may run it, though perhaps not for this key.
fn is_known(name: &str, answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        // Of a cluster, the key's slot is another one's, or nobody's.
        Value::ServerError(error) => match error.code() {
            "MOVED" | "ASK" | "CLUSTERDOWN" => true,
            "NOPERM" => denied(name, answer).is_none(),
            _ => false,
        },
        _ => false,
    }
}

/// Whether the server, or a proxy before it, does not know the command at all, in the words of those that there are.
fn is_unknown(answer: &Value) -> bool {
    const WORDS: [&str; 5] = [
        "unknown command",
        "unsupported command",
        "invalid request",
        "not available",
        "not supported",
    ];
    let Value::ServerError(error) = answer else { return false };
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default()).to_lowercase();
    !has_code(error) && WORDS.iter().any(|words| text.contains(words))
}

/// A fault if the command itself is denied, or unknown; whether this key is says nothing about those of locks.
fn denied(name: &str, answer: &Value) -> Option<Fault> {
    let Value::ServerError(error) = answer else { return None };
    let details = error.details().unwrap_or_default();
    if is_unknown(answer) {
        let text = format!(
            "the server does not know {name}, which every lock needs (a proxy, or rename-command, hides it): "
        );
        return Some(Fault::unsupported(text).saying(without_arguments(details), ""));
    }
    // The text names what was denied: a command by its name, in quotes, a key as a key.
    let about = details.contains(&format!("'{}", name.to_lowercase()));
    // Of EXEC it is said inside of what becomes of the transaction.
    ((error.code() == "NOPERM" || details.contains("NOPERM")) && about).then(|| {
        let text = format!("the node's user may not run {name}, which every lock needs: ");
        Fault::new(text).saying(details, " (docs/security.md lists all rights)").refused()
    })
}
