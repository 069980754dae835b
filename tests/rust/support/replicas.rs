//! A primary with a replica, and clients that require one.

use redlock::Redlock;

use super::{Server, builder};

/// A primary whose replica has every write within 0.1 s, if it runs.
pub(crate) fn pair() -> (Server, Server) {
    let primary = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::replica_of(&primary);
    (primary, replica)
}

pub(crate) fn one_replica(url: String) -> Redlock {
    builder([url]).min_replicas(1).build().unwrap()
}

/// How often the server has received this command.
pub(crate) fn calls(server: &Server, command: &str) -> usize {
    let stats = server.info("commandstats", &format!("cmdstat_{command}"));
    let number = |stats: &str| stats.strip_prefix("calls=")?.split(',').next()?.parse().ok();
    stats.as_deref().and_then(number).unwrap_or(0)
}
