//! Many leases that are acquired, renewed and released together.

use std::time::Duration;

use futures_util::future::join_all;
use redlock::{Lease, Lock, Redlock};

use super::{Server, millis};

pub(crate) const LEASES: usize = 250;

pub(crate) const TTL: u64 = 1500;

/// A client without notifications, which detects a lost key only when it renews.
pub(crate) fn client_without_pushes(server: &Server) -> Redlock {
    let url = format!("{}?protocol=2", server.url());
    Redlock::builder([url]).restart_guard(Duration::ZERO).build().unwrap()
}

pub(crate) async fn acquire_many(redlock: &Redlock, count: usize) -> Vec<Lease> {
    let one = |at: usize| redlock.lock(format!("job-{at}")).ttl(millis(TTL)).acquire();
    join_all((0..count).map(one)).await.into_iter().map(Result::unwrap).collect()
}

pub(crate) async fn release_many(leases: Vec<Lease>) -> Vec<redlock::Result<()>> {
    join_all(leases.into_iter().map(Lease::release)).await
}

/// The maximum number of commands for this many renewals. Redis 6 has no `GT`.
pub(crate) fn max_commands(server: &Server, renewed: usize) -> usize {
    let version = server.info("server", "redis_version").unwrap_or_default();
    if version.starts_with("6.") { renewed + LEASES } else { renewed / 4 }
}

/// How often a command was run.
pub(crate) fn calls_of(server: &Server, command: &str) -> usize {
    let stats = server.info("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
    let calls = stats.split(',').find_map(|part| part.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// The locks named in `taken` wait only briefly. If a wait may leave no time for a second question, the client sends
/// the script directly.
pub(crate) fn locks_of(redlock: &Redlock, taken: &[usize]) -> Vec<Lock> {
    let one = |at: usize| {
        let lock = redlock.lock(format!("job-{at}")).ttl(millis(TTL));
        if taken.contains(&at) { lock.wait(millis(700)) } else { lock }
    };
    (0..LEASES).map(one).collect()
}
