//! What a server is asked at connect, once the login is over.

use redis::{Cmd, cmd};

use super::endpoint::Endpoint;
use super::native::Delete;
use super::rights::Needs;
use super::script::scripts;

/// What `PING` is to say back.
pub(super) const NAMED: &str = "x";

/// The name shows in CLIENT LIST, for whoever looks for the cause of a load.
pub(super) fn named(endpoint: &Endpoint) -> Cmd {
    cmd("CLIENT").arg("SETNAME").arg(&endpoint.client_name).clone()
}

/// What an answer of the greeting is for.
pub(super) enum Step {
    /// Nobody minds an error.
    Optional,
    /// Whether it is a primary, where one is wanted.
    Role,
    /// Whether the server keeps scripts.
    Script,
    /// Whether there is such a database.
    Database,
    /// Whether changes are pushed.
    Tracking,
    /// Whether the user may run this command.
    Right(&'static str),
    /// Whether it deletes in this way.
    Delete(Delete),
    /// Whether it says back what it is given.
    Named,
    /// What the server says about itself.
    About,
    /// The number by which the server knows the connection.
    Id,
}

/// What is asked once the login is over, each with what its refusal means.
/// `minimal`: only what locks cannot do without.
pub(super) fn steps(
    endpoint: &Endpoint,
    resp3: bool,
    needs: &Needs,
    minimal: bool,
) -> Vec<(Step, Cmd)> {
    let trial = |(name, try_it)| (Step::Right(name), try_it);
    if minimal {
        let select = cmd("SELECT").arg(endpoint.db).clone();
        let select = (endpoint.db != 0).then_some((Step::Database, select));
        return select.into_iter().chain(needs.trials(false).into_iter().map(trial)).collect();
    }
    let mut steps = vec![(Step::Optional, named(endpoint))];
    // Since Redis 7.2, and no part of the name that users choose.
    for (what, value) in [("LIB-NAME", "redlock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
        let about_us = cmd("CLIENT").arg("SETINFO").arg(what).arg(value).clone();
        steps.push((Step::Optional, about_us));
    }
    if endpoint.db != 0 {
        steps.push((Step::Database, cmd("SELECT").arg(endpoint.db).clone()));
    }
    for section in ["server", "memory"] {
        steps.push((Step::About, about(section)));
    }
    if needs.scripts() {
        // Loaded each time: after this EVALSHA fails only if somebody flushes them.
        steps.extend(load_scripts().map(|load| (Step::Script, load)));
    }
    steps.extend(needs.trials(true).into_iter().map(trial));
    let deletes = needs.deletes();
    if !deletes.is_empty() {
        steps.push((Step::Named, cmd("PING").arg(NAMED).clone()));
    }
    steps.extend(deletes.into_iter().map(|(by, try_it)| (Step::Delete(by), try_it)));
    // After the trials, whose key the server need not remember.
    if resp3 {
        // OPTOUT: every key that is read is told of, unless CACHING NO goes before. NOLOOP: not what we changed
        // ourselves.
        let tracking = ["TRACKING", "ON", "OPTOUT", "NOLOOP"];
        steps.push((Step::Tracking, cmd("CLIENT").arg(&tracking).clone()));
    } else {
        steps.push((Step::Id, cmd("CLIENT").arg("ID").clone()));
    }
    steps
}

/// Asks what the server says about itself.
pub(super) fn about(section: &str) -> Cmd {
    cmd("INFO").arg(section).clone()
}

/// Gives the server the scripts, which it may have forgotten.
pub(super) fn load_scripts() -> impl Iterator<Item = Cmd> {
    scripts().iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}
