//! Passes commands that a cluster's server did not serve from its connection to the router.
//!
//! The key's slot is on another server, or is migrating. The connection only parses the reply and passes on the whole
//! command, with its caller and its redirects. A standalone server has no router, and such a reply is treated like any
//! other.

use std::fmt;
use std::sync::{Arc, Weak};

use redis::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::protocol::{Command, Detour, InFlight, Purpose};

/// The address of a server in a cluster: a host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// In lower case. Empty for the host of the replying server.
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl Address {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_lowercase().into(), port }
    }

    /// Uses the host of the replying server for a server that does not know its own host.
    pub(super) fn or_host_of(&self, from: &Self) -> Self {
        let host = if self.host.is_empty() { &from.host } else { &self.host };
        Self { host: Arc::clone(host), port: self.port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Why a server does not serve a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another server has the slot.
    Moved(u16, Address),
    /// The slot is migrating to another server, which must get this command.
    Ask(Address),
    /// Only some of several keys have migrated.
    TryAgain,
    /// No server has the slot now, or this server must not write.
    Nobody,
}

impl Redirect {
    /// Parses a redirect, if the reply is one.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let mut words = error.details().unwrap_or_default().split_whitespace();
        let mut place = || {
            let slot = words.next()?.parse().ok()?;
            // Splits at the last colon, because an IPv6 address has no brackets here.
            let (host, port) = words.next()?.rsplit_once(':')?;
            Some((slot, Address::new(host, port.parse().ok()?)))
        };
        match error.code() {
            "MOVED" => place().map(|(slot, address)| Self::Moved(slot, address)),
            "ASK" => place().map(|(_, address)| Self::Ask(address)),
            "TRYAGAIN" => Some(Self::TryAgain),
            "CLUSTERDOWN" | "READONLY" => Some(Self::Nobody),
            // The error within scripts, if a cluster that is down allows reads.
            _ if error.details().is_some_and(|told| told.contains("cluster is down")) => {
                Some(Self::Nobody)
            }
            _ => None,
        }
    }
}

/// An event of a connection for its cluster.
pub(super) enum Stray {
    /// A command that must continue at another server.
    Redirected(InFlight, Redirect),
    /// The location of a slot, from a reply to a command that is sent again anyway.
    Told(Redirect),
    /// A pending delete and its redirects. It also becomes pending at the next owner of the key.
    Owed(Command, Detour),
    /// The connection is open.
    Opened,
    /// The connection ended, or could not be opened.
    Ended,
}

/// The sending side of the channel to the cluster.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) to: UnboundedSender<(Address, Stray)>,
    /// The server of the connection.
    pub(super) from: Address,
    /// Counts deletes that are no longer at the server that they were first sent to.
    pub(super) astray: Weak<()>,
}

impl Outlet {
    /// Sends an event. Without a cluster task, the client is gone and no caller waits.
    pub(super) fn say(&self, stray: Stray) {
        let _ = self.to.send((self.from.clone(), stray));
    }

    /// Reports a pending delete.
    pub(super) fn owed(&self, in_flight: &InFlight) {
        if matches!(in_flight.command.purpose, Purpose::Delete { .. }) {
            self.say(Stray::Owed(in_flight.command.clone(), in_flight.detour));
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::Redirect;

    #[test]
    fn recognizes_cluster_down_errors_of_scripts() {
        let read = |text: &str| Redirect::read(&parse_redis_value(text.as_bytes()).unwrap());
        for text in [
            "-CLUSTERDOWN The cluster is down\r\n",
            "-ERR Can not execute a write command while the cluster is down and readonly script: x\r\n",
        ] {
            assert_eq!(read(text), Some(Redirect::Nobody), "{text}");
        }
        assert_eq!(read("-ERR wrong number of arguments\r\n"), None);
    }
}
