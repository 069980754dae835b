//! What a server of a cluster cannot do, as the key's slot is elsewhere or on its way: from its connection to whoever
//! knows where to go on.
//!
//! A connection only reads what its server says and hands the command over, whole: with whoever waits for it, and with
//! what is known of it. A server that stands alone has no outlet, and such an answer is one like any other.

use std::fmt;
use std::sync::{Arc, Weak};

use redis::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::in_flight::{Command, Detour, InFlight, Purpose};

/// Where a cluster's server is: a host, by name or address, and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// In small letters; empty: the host of the server that says so.
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl Address {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_lowercase().into(), port }
    }

    /// A server that does not know its own host is where the one is that names it.
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

/// What a server says of a slot that it does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another one has it, for good.
    Moved(u16, Address),
    /// It is on its way to another one, which is to be asked this once.
    Ask(Address),
    /// Of several keys some are here and some there.
    TryAgain,
    /// Nobody has it now, or this server may not write.
    Nobody,
}

impl Redirect {
    /// What an answer says, if it sends elsewhere.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let mut words = error.details().unwrap_or_default().split_whitespace();
        let mut place = || {
            let slot = words.next()?.parse().ok()?;
            // The last colon: an IPv6 address comes without brackets.
            let (host, port) = words.next()?.rsplit_once(':')?;
            Some((slot, Address::new(host, port.parse().ok()?)))
        };
        match error.code() {
            "MOVED" => place().map(|(slot, address)| Self::Moved(slot, address)),
            "ASK" => place().map(|(_, address)| Self::Ask(address)),
            "TRYAGAIN" => Some(Self::TryAgain),
            "CLUSTERDOWN" | "READONLY" => Some(Self::Nobody),
            // So it is told to scripts, where a cluster that is down may be read.
            _ if error.details().is_some_and(|told| told.contains("cluster is down")) => {
                Some(Self::Nobody)
            }
            _ => None,
        }
    }
}

/// What a connection has to say to the cluster that it is one of.
pub(super) enum Stray {
    /// A command to go on with elsewhere.
    Redirected(InFlight, Redirect),
    /// Where a slot is, learnt from a command that is asked again anyway.
    Told(Redirect),
    /// A delete that is owed here, and how it came: if the key gets another owner, it is owed there.
    Owed(Command, Detour),
    /// There is a connection.
    Opened,
    /// There is none: one ended, or could not be opened.
    Ended,
}

/// A connection's end of the way to its cluster.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) to: UnboundedSender<(Address, Stray)>,
    /// The server behind the connection.
    pub(super) from: Address,
    /// Counts deletes that are not where they were asked first.
    pub(super) astray: Weak<()>,
}

impl Outlet {
    /// Says it. The cluster may be gone; then its client is, and nobody waits.
    pub(super) fn say(&self, stray: Stray) {
        let _ = self.to.send((self.from.clone(), stray));
    }

    /// A delete is owed.
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
    fn a_cluster_that_is_down_says_so_to_scripts_in_other_words() {
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
