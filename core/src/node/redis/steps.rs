//! Defines the requests of the handshake that follow the login.

use redis::{Cmd, cmd};

use super::endpoint::Endpoint;
use super::native::Delete;
use super::rights::Needs;
use super::script::scripts;

/// The argument that `PING` must return.
pub(super) const NAMED: &str = "x";

/// Sets the name of the connection, which `CLIENT LIST` shows to find the cause of a load.
pub(super) fn named(endpoint: &Endpoint) -> Cmd {
    cmd("CLIENT").arg("SETNAME").arg(&endpoint.client_name).clone()
}

/// The purpose of a request.
pub(super) enum Step {
    /// An error is ignored.
    Optional,
    /// Whether the server is a primary, if that is required.
    Role,
    /// Whether the server stores scripts.
    Script,
    /// Whether the database exists.
    Database,
    /// Whether the server pushes changes.
    Tracking,
    /// Whether the user may run this command.
    Right(&'static str),
    /// Whether the server supports this delete.
    Delete(Delete),
    /// Whether `PING` returns its argument.
    Named,
    /// The server's description.
    About,
    /// The ID of the connection at the server.
    Id,
}

/// Returns the requests with their purposes. With `minimal`, only those that locks need.
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
    // Separate from the name that users choose. Supported since Redis 7.2.
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
        // Loaded at every connect, so that `EVALSHA` fails only after a flush of the scripts.
        steps.extend(load_scripts().map(|load| (Step::Script, load)));
    }
    steps.extend(needs.trials(true).into_iter().map(trial));
    let deletes = needs.deletes();
    if !deletes.is_empty() {
        steps.push((Step::Named, cmd("PING").arg(NAMED).clone()));
    }
    steps.extend(deletes.into_iter().map(|(by, try_it)| (Step::Delete(by), try_it)));
    // Enabled after the trials, so that the server does not track their key.
    if resp3 {
        // With `OPTOUT` the server tracks every key that is read, unless `CACHING NO` precedes the read. `NOLOOP`
        // excludes our own changes.
        let tracking = ["TRACKING", "ON", "OPTOUT", "NOLOOP"];
        steps.push((Step::Tracking, cmd("CLIENT").arg(&tracking).clone()));
    } else {
        steps.push((Step::Id, cmd("CLIENT").arg("ID").clone()));
    }
    steps
}

/// Requests a section of `INFO`.
pub(super) fn about(section: &str) -> Cmd {
    cmd("INFO").arg(section).clone()
}

/// Loads the scripts into the server.
pub(super) fn load_scripts() -> impl Iterator<Item = Cmd> {
    scripts().iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}
