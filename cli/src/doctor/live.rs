//! Acquires, extends, loses and releases a lock with a random name.

use std::time::Duration;

use redlock::{Error, Lease, Redlock};

use super::server::NO_ROOM;

/// How long a notification may take. Without one, a loss is noticed at the next renewal.
const NOTIFIED: Duration = Duration::from_secs(2);

/// The result of a trial.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The step that failed, and why.
    pub(super) failed: Option<(&'static str, String)>,
    /// Whether the holder was notified of a loss. `None` if it did not come to that.
    pub(super) notified: Option<bool>,
}

impl Trial {
    /// Whether a server had no room for one of its connections. The connections of this command count too, so programs
    /// may still have room.
    pub(super) fn is_refused_connection(&self) -> bool {
        self.failed.as_ref().is_some_and(|(_, error)| error.contains(NO_ROOM))
    }
}

/// Tries the lock. Another client deletes it, because a client does not need to notify itself.
pub(super) async fn trial(clients: [&Redlock; 2], name: &str, ttl: Duration) -> Trial {
    let mut notified = None;
    let failed = steps(clients, name, ttl, &mut notified).await.err();
    Trial { failed: failed.map(|(step, error)| (step, error.to_string())), notified }
}

async fn steps(
    [client, other]: [&Redlock; 2],
    name: &str,
    ttl: Duration,
    notified: &mut Option<bool>,
) -> Result<(), (&'static str, Error)> {
    let lock = client.lock(name).ttl(ttl).wait(Duration::ZERO);
    let lease = lock.acquire().await.map_err(|error| ("acquire", error))?;
    lease.extend(ttl).await.map_err(|error| ("extend", error))?;
    other.force_release(name).await.map_err(|error| ("delete", error))?;
    *notified = Some(is_notified(&lease).await);
    // It is not held any more.
    drop(lease);
    let lease = lock.acquire().await.map_err(|error| ("acquire again", error))?;
    lease.release().await.map_err(|error| ("release", error))
}

async fn is_notified(lease: &Lease) -> bool {
    tokio::time::timeout(NOTIFIED, lease.lost()).await.is_ok()
}
