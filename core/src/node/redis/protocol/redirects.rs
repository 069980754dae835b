//! Parses the redirects of a cluster's servers, and decides who sends the command to the right server
//! ([`is_forwarded`]). [`super::replies`] finds the redirects.
//!
//! The waiting caller sends a redirected command again (`cluster::follow`). Two kinds of commands go to the task of the
//! cluster instead: deletes, which need no caller, and extensions whose key is migrating. The simulation uses these
//! decisions too.

use std::sync::Weak;
use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::in_flight::InFlight;
use crate::clock::Instant;
use crate::node::redis::commands::command::{Command, Purpose, Redirects};
use crate::node::redis::io::endpoint::ServerAddress;

/// Why a server does not serve a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Another server has the slot.
    Moved(u16, ServerAddress),
    /// The slot is migrating to another server, which must get this command.
    Ask(ServerAddress),
    /// Only some of several keys have migrated.
    TryAgain,
    /// No server has the slot now, its address is not known, or this server must not write.
    NoOwner,
}

impl Redirect {
    pub(crate) fn parse(value: &Value) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let mut words = error.details().unwrap_or_default().split_whitespace();
        let mut place = || {
            let slot = words.next()?.parse().ok()?;
            // Splits at the last colon, because an IPv6 address has no brackets here.
            let (host, port) = words.next()?.rsplit_once(':')?;
            Some((slot, ServerAddress::new(host, port.parse().ok()?)))
        };
        match error.code() {
            // The server does not know the address, for example without an announced host name.
            "MOVED" | "ASK" if error.details().is_some_and(|told| told.contains(" ?:")) => {
                Some(Self::NoOwner)
            }
            "MOVED" => place().map(|(slot, address)| Self::Moved(slot, address)),
            "ASK" => place().map(|(_, address)| Self::Ask(address)),
            "TRYAGAIN" => Some(Self::TryAgain),
            "CLUSTERDOWN" | "READONLY" => Some(Self::NoOwner),
            // The error within scripts, if a cluster that is down allows reads.
            _ if error.details().is_some_and(|told| told.contains("cluster is down")) => {
                Some(Self::NoOwner)
            }
            _ => None,
        }
    }
}

pub(crate) enum ConnectionEvent {
    /// A redirect, with the command if it must continue at another server. Otherwise its caller sends it again.
    Redirected(Option<InFlight>, Redirect),
    /// A pending delete and its redirects. It also becomes pending at the next owner of the key.
    DeletePending(Command, Redirects),
    /// The connection ended, or could not be opened.
    Ended,
}

#[derive(Clone)]
pub(crate) struct ClusterSender {
    pub(crate) to: UnboundedSender<(ServerAddress, ConnectionEvent)>,
    pub(crate) from: ServerAddress,
    /// Counts the deletes that were redirected to another server.
    pub(crate) rerouted: Weak<()>,
}

impl ClusterSender {
    /// Sends an event. Without a cluster task, the client is gone and no caller waits.
    pub(crate) fn send(&self, event: ConnectionEvent) {
        let _ = self.to.send((self.from.clone(), event));
    }
}

/// The shortest pause, in which the map changes after a redirect, and the longest one.
const REDIRECT_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// Returns the pause before a redirected command is sent again. It is as long as the time since the first redirect, so
/// that a long migration gets few commands, and the views of the servers can converge.
pub(crate) fn pause(since: Instant, now: Instant) -> Duration {
    now.since(since).clamp(REDIRECT_PAUSE.0, REDIRECT_PAUSE.1)
}

/// Whether the task of the cluster sends the command to another server. `asked` means that the slot is migrating and
/// `ASK` named the target.
///
/// It never sends a vote. A vote without a waiting caller could arrive after its delete. In addition, `ASKING` is not
/// tied to one migration. A vote that is redirected during one migration could reach the same server during the next
/// one, and be granted before the holder's key has arrived.
pub(crate) fn is_forwarded(purpose: &Purpose, asked: bool, redirects: Redirects) -> bool {
    match purpose {
        Purpose::Delete { .. } => true,
        // An extension creates no key. Forwarded once, because its caller sends it again.
        Purpose::Extend => asked && redirects.since.is_none(),
        _ => false,
    }
}

/// Returns the pause before the task sends a redirected command to the next server. `None` drops the command, because
/// the keys of a delete have expired, or because no caller waits for an extension (`has_caller`).
pub(crate) fn redirect_pause(
    redirects: &mut Redirects,
    purpose: &mut Purpose,
    has_caller: bool,
    now: Instant,
) -> Option<Duration> {
    let since = *redirects.since.get_or_insert(now);
    let pause = pause(since, now);
    let Purpose::Delete { lifetime, until, .. } = purpose else {
        return has_caller.then_some(pause);
    };
    // Measured from its first redirect as well. A delete that a frozen server redirected later may be older than every
    // key.
    let until = (*until.get_or_insert(now + *lifetime)).max(since + *lifetime);
    (now < until).then_some(pause)
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn recognizes_that_no_server_can_be_asked() {
        let read = |text: &str| Redirect::parse(&parse_redis_value(text.as_bytes()).unwrap());
        for text in [
            "-CLUSTERDOWN The cluster is down\r\n",
            "-MOVED 7 ?:7000\r\n",
            "-ERR Can not execute a write command while the cluster is down and readonly script: x\r\n",
        ] {
            assert_eq!(read(text), Some(Redirect::NoOwner), "{text}");
        }
        assert_eq!(read("-ERR wrong number of arguments\r\n"), None);
    }

    /// A frozen server may run a vote late. The key may then have moved, although it should have expired.
    #[test]
    fn redirected_delete_gets_its_full_time_again() {
        let time = |seconds| Instant::from_start(Duration::from_secs(seconds));
        let lifetime = Duration::from_secs(10);
        let mut delete = Purpose::delete("a".into(), lifetime);
        if let Purpose::Delete { until, .. } = &mut delete {
            *until = Some(time(10));
        }
        let mut redirects = Redirects::default();
        let mut pause = |now| redirect_pause(&mut redirects, &mut delete, false, time(now));
        assert_eq!(pause(60), Some(REDIRECT_PAUSE.0));
        assert!(pause(69).is_some());
        assert_eq!(pause(70), None);
    }
}
