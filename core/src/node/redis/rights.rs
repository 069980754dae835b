//! What the server's user must be allowed to do, asked at connect: without `PEXPIRE` a lease would be granted, never
//! renewed, and end; without `EVALSHA` it could not be given back.
//!
//! Each command is tried on a key that nobody has: it changes nothing, and is no error where it is allowed. The
//! greeting is pipelined anyway, so some more questions cost nothing; they come before tracking, so that the server
//! remembers no key. What options ask of the server beyond that ([`Durability`]) is tried with them.

use redis::{Cmd, Value, cmd};
use uuid::Uuid;

use super::durability::Durability;
use super::script::{INSPECT, SCRIPTS};
use crate::node::Fault;

/// What a client's options ask of a server and of its user.
#[derive(Clone)]
pub(crate) struct Needs {
    /// Before every key: what the server's user may do is tried below it.
    pub(crate) key_prefix: String,
    /// What must have become of a grant before it counts.
    pub(crate) durability: Durability,
}

impl Needs {
    /// The commands, by name; the last of a lock's own wants the scripts loaded.
    pub(super) fn trials(&self) -> Vec<(&'static str, Cmd)> {
        let mut trials = every_lock(&self.key_prefix);
        trials.extend(self.durability.trial());
        trials
    }

    /// A fault if the server, or its user, cannot do this.
    pub(super) fn lack(&self, name: &str, answer: &Value) -> Option<Fault> {
        if name == self.durability.name() {
            self.durability.unmet(answer)
        } else {
            denied(name, answer)
        }
    }
}

/// The commands of every lock.
fn every_lock(key_prefix: &str) -> Vec<(&'static str, Cmd)> {
    // Below the prefix, where rights by key pattern apply; random, so that it is nobody's.
    let key = format!("{key_prefix}redlock-rights-{}", Uuid::new_v4().simple());
    let on = |name: &str| cmd(name).arg(&key).clone();
    vec![
        ("GET", on("GET")),
        // XX: of a key that is not there nothing is set.
        ("SET", on("SET").arg("x").arg("XX").clone()),
        ("DEL", on("DEL")),
        ("PTTL", on("PTTL")),
        ("PEXPIRE", on("PEXPIRE").arg(1).clone()),
        ("EVALSHA", cmd("EVALSHA").arg(&SCRIPTS[INSPECT].digest).arg(1).arg(&key).clone()),
    ]
}

/// A fault if the command itself is denied, or unknown; whether this key is says nothing about those of locks.
fn denied(name: &str, answer: &Value) -> Option<Fault> {
    let Value::ServerError(error) = answer else { return None };
    let details = error.details().unwrap_or_default();
    if details.contains("unknown command") {
        let text = format!(
            "the server does not know {name}, which every lock needs (a proxy, or rename-command, hides it): "
        );
        return Some(Fault::invalid(text).saying(details, ""));
    }
    // The text names what was denied: a command by its name, in quotes, a key as a key.
    let about = details.contains(&format!("'{}", name.to_lowercase()));
    (error.code() == "NOPERM" && about).then(|| {
        let text = format!("the node's user may not run {name}, which every lock needs: ");
        Fault::new(text).saying(details, " (docs/security.md lists all rights)")
    })
}
