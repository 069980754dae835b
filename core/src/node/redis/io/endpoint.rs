//! The address of a server with its login, and what the parameters of its URL say. Plain data.
//!
//! It knows the password, and removes it from a text ([`Endpoint::without_password`]).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::tls::{Tls, TlsOptions};
use crate::node::Fault;
use crate::node::callback::CONNECTING;
use crate::node::credentials::{Credentials, Granted, Provider};
use crate::text::host_and_port;

/// The address of a server, and the login to use there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: PeerAddr,
    /// The address of the server, if another connection to the same server is open.
    pub(crate) known: Option<SocketAddr>,
    /// `None` for the user `default`, or for no login without a password.
    pub(crate) username: Option<String>,
    /// Never shown, see `Route::redact`.
    pub(crate) password: Option<String>,
    /// Selected at connect. A connection starts with database 0.
    pub(crate) db: i64,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) client_name: String,
    pub(crate) connect_timeout: Duration,
    /// Supplies the login, if it is not in the URL.
    pub(crate) provider: Option<Provider>,
    /// The TLS configuration, set once the client's options are loaded.
    pub(crate) tls: Option<Tls>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PeerAddr {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

impl Endpoint {
    /// Formats the URL in a canonical form, without user, password and database.
    fn address_text(&self) -> String {
        let scheme = match &self.address {
            PeerAddr::Tcp(..) => "redis",
            PeerAddr::Tls(..) => "rediss",
            PeerAddr::Unix(_) => "unix",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns host and port, or the path, which follow the scheme.
    pub(crate) fn authority(&self) -> String {
        match &self.address {
            // The parser removed the brackets of an IPv6 address, and decoded its zone.
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) => {
                host_and_port(&host.replace('%', "%25"), *port)
            }
            PeerAddr::Unix(path) => path.display().to_string(),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.address, PeerAddr::Tls(..))
    }

    /// Returns the same server with or without TLS.
    pub(crate) fn with_tls(self, tls: bool) -> Self {
        let address = match self.address {
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) if tls => {
                PeerAddr::Tls(host, port)
            }
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) => PeerAddr::Tcp(host, port),
            unix @ PeerAddr::Unix(_) => unix,
        };
        Self { address, ..self }
    }

    pub(crate) async fn granted(&self) -> std::result::Result<Option<Granted>, Fault> {
        match &self.provider {
            Some(provider) => provider.get(CONNECTING).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns another server with the same login and options.
    pub(crate) fn at(&self, host: String, port: u16) -> Self {
        let address =
            if self.is_tls() { PeerAddr::Tls(host, port) } else { PeerAddr::Tcp(host, port) };
        Self { address, known: None, ..self.clone() }
    }

    pub(crate) fn with_login(&self, granted: &Credentials) -> Self {
        let username = granted.username.clone();
        Self { username, password: Some(granted.password.clone()), ..self.clone() }
    }

    /// Returns what identifies the node in a node list: address and database, regardless of the login.
    ///
    /// It cannot detect two names of one server. `run_ids` does that at connect.
    pub(crate) fn identity(&self) -> String {
        let address = self.address_text();
        // Host names ignore case, file names do not.
        let address = if matches!(self.address, PeerAddr::Unix(_)) {
            address
        } else {
            address.to_lowercase()
        };
        format!("{address}/{}", self.db)
    }

    /// Removes the password from a server's text.
    pub(crate) fn without_password(&self, text: &str) -> String {
        let text = match self.password.as_deref() {
            // An empty password is part of every text.
            None | Some("") => text.to_owned(),
            Some(password) => text.replace(password, "***"),
        };
        self.provider.as_ref().map_or_else(|| text.clone(), |provider| provider.redact(&text))
    }

    pub(crate) fn shown_url(&self) -> String {
        match self.db {
            // The common form without a database.
            0 => self.address_text(),
            db => format!("{}/{db}", self.address_text()),
        }
    }
}

/// The parameters of a URL. `None` if not set.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    pub(crate) db: Option<i64>,
    pub(crate) username: Option<String>,
    /// Never shown.
    pub(crate) password: Option<String>,
    /// The version of the protocol: 2 or 3.
    pub(crate) protocol: Option<u8>,
    /// The address family to try: 4, 6, or 0 for both.
    pub(crate) family: Option<u8>,
    pub(crate) client_name: Option<Given<String>>,
    /// The deadline of one vote.
    pub(crate) node_timeout: Option<Given<Duration>>,
    /// The time limit of one attempt to connect.
    pub(crate) connect_timeout: Option<Given<Duration>>,
    pub(crate) tls: TlsOptions,
    /// The first parameter that requires TLS.
    pub(crate) tls_by: Option<&'static str>,
}

/// A value and the name of its parameter, for conflicts with an option.
#[derive(Clone)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) by: &'static str,
}

/// The address of a server in a cluster: a host, by name or address, and a port.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    /// In lower case. Empty for the host of the replying server.
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
    /// The server that announced it, or `None` for an address of the URL. It does not distinguish addresses.
    pub(crate) announced_by: Option<Arc<str>>,
}

impl PartialEq for ServerAddress {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

impl Eq for ServerAddress {}

impl Ord for ServerAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.host, self.port).cmp(&(&other.host, other.port))
    }
}

impl PartialOrd for ServerAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ServerAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.host, self.port).hash(state);
    }
}

impl ServerAddress {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_lowercase().into(), port, announced_by: None }
    }

    /// Stands for a server that is not known.
    pub(crate) fn unknown() -> Self {
        Self::new("", 0)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.port == 0
    }

    /// Returns the address as the server at `from` announced it. That server's host stands for one that is not known.
    pub(crate) fn announced_by(&self, from: &Self) -> Self {
        let host = if self.host.is_empty() { &from.host } else { &self.host };
        let announced_by = Some(from.to_string().into());
        Self { host: Arc::clone(host), port: self.port, announced_by }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&host_and_port(&self.host, self.port))
    }
}
