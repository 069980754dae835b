//! Parses the URL of a node: `redis://`, `rediss://` and `unix://` here, several hosts in [`route`].
//!
//! The result is the address of a server, and the login to use there. This module opens no connection.
//! [`Route::redact`] removes the password from texts.

mod checks;
pub(super) mod query;
pub(super) mod route;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use super::io::tls::{Tls, TlsOptions, one};
use crate::error::{Error, Result};
use crate::node::address_map::AddressMap;
use crate::node::credentials::{Ask, Provider};
use crate::node::redis::io::endpoint::{Endpoint, Parameters, PeerAddr};
use crate::text::spelled;
use checks::{check, socket_login, without_zone};
use query::CLIENT_NAME;

/// The default time limit of one attempt to connect: name lookup, TCP, TLS, login and handshake. A name lookup that
/// takes longer continues, and later attempts join it.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const TWICE: &str = "a user or a password appears before the @ and after the ?. Write it once";

impl Endpoint {
    /// Parses the URL, which may be a part of another one. Returns the violated rule as an error.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        // The parser accepts no login before the path of a socket. It is that of any server.
        if let Some((login, path)) = socket_login(text) {
            let login = Self::parse(&format!("redis://{login}@host"))?;
            let socket = Self::parse(&format!("unix://{path}"))?;
            return socket.with_login_of(login);
        }
        let (text, zone) = without_zone(text)?;
        // The error of the parser contains no part of the URL.
        let mut url = Url::parse(&text).map_err(|error| {
            format!("{error}. Write @, :, / and similar characters in a password as %40, %3A, %2F")
        })?;
        check(&url)?;
        // The parser supports TLS schemes only with its own TLS library. The URLs differ in the scheme only.
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls && url.set_scheme("redis").is_err() {
            return Err("its scheme is unknown".into());
        }
        let parameters = query::parse_query(url.query().unwrap_or_default())?;
        url.set_query(None);
        // Uses the rules of the `redis` crate for hosts, ports and databases, so that a URL means the same as
        // elsewhere.
        let path = !matches!(url.path(), "" | "/");
        let info = url.into_connection_info().ok().filter(|info| info.redis_settings().db() >= 0);
        let info = info.ok_or("the path after the host must be a database number, 0 or more")?;
        let settings = info.redis_settings();
        let host =
            |host: &str| zone.map_or_else(|| host.to_owned(), |zone| format!("{host}%{zone}"));
        let address = match info.addr() {
            ConnectionAddr::Tcp(name, port) if tls => PeerAddr::Tls(host(name), *port),
            ConnectionAddr::Tcp(name, port) => PeerAddr::Tcp(host(name), *port),
            ConnectionAddr::Unix(path) => PeerAddr::Unix(path.clone()),
            _ => return Err("its kind of connection is not supported".into()),
        };
        let path = path && !matches!(address, PeerAddr::Unix(_));
        let this = Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
            address,
            known: None,
            client_name: CLIENT_NAME.to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            provider: None,
            tls: None,
            parameters: Arc::new(parameters),
        };
        this.with_parameters(path)
    }

    /// Adds a user and a password that are before the @.
    fn with_login_of(self, login: Self) -> std::result::Result<Self, String> {
        if self.username.is_some() || self.password.is_some() {
            return Err(TWICE.to_owned());
        }
        Ok(Self { username: login.username, password: login.password, ..self })
    }

    /// Combines the parameters with the rest of the URL. They must not contradict it. `path` means that the path
    /// contains a database.
    fn with_parameters(mut self, path: bool) -> std::result::Result<Self, String> {
        let Parameters { db, username, password, family, tls_by, .. } = (*self.parameters).clone();
        if path && db.is_some_and(|db| db != self.db) {
            return Err(
                "its path and its parameter db name different databases. Write only one".to_owned()
            );
        }
        self.db = db.unwrap_or(self.db);
        let twice = (username.is_some() && self.username.is_some())
            || (password.is_some() && self.password.is_some());
        if twice {
            return Err(TWICE.to_owned());
        }
        self.username = self.username.or(username);
        self.password = self.password.or(password);
        // Some clients then log in without a user, and redis-cli takes it for the password.
        if self.username.is_some() && self.password.as_deref().is_none_or(str::is_empty) {
            return Err(
                "it has a user without a password. Write user:pass@host, or :pass@host for a password without a user"
                    .to_owned(),
            );
        }
        if let (Some(by), false) = (tls_by, self.is_tls()) {
            return Err(format!("its parameter {by} needs TLS. Use rediss://"));
        }
        if family.is_some() && matches!(self.address, PeerAddr::Unix(_)) {
            return Err("a Unix socket has no address family. Remove the parameter".to_owned());
        }
        Ok(self)
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(mut self, shared: &SharedSettings) -> Result<Self> {
        let url = self.shown_url();
        self.connect_timeout = shared.connect_timeout;
        if self.is_tls() {
            self.tls = Some(shared.tls(&self.parameters.tls, &url)?);
        }
        if let Some(given) = &self.parameters.client_name {
            one(shared.client_name.as_ref(), Some(&given.value), given.by, "client_name", &url)?;
            self.client_name.clone_from(&given.value);
        } else if let Some(name) = &shared.client_name {
            self.client_name.clone_from(name);
        }
        Ok(self)
    }

    /// Sets the provider of credentials, which is called at each connect.
    pub(crate) fn asking(mut self, shared: &SharedSettings) -> Result<Self> {
        self.provider.clone_from(&shared.provider);
        if self.provider.is_none() || (self.username.is_none() && self.password.is_none()) {
            return Ok(self);
        }
        Err(Error::invalid(format!(
            "{} is set, but node {} has a user or a password in its URL. Use only one of them",
            spelled("credentials"),
            self.shown_url()
        )))
    }
}

/// The options that all nodes of a client share: TLS, client name and credentials. A node adds those of its URL.
pub(crate) struct SharedSettings {
    /// The TLS options of `rediss://` nodes.
    pub(crate) options: TlsOptions,
    pub(crate) client_name: Option<String>,
    /// Supplies the login for URLs without one.
    pub(crate) provider: Option<Provider>,
    pub(crate) connect_timeout: Duration,
    pub(crate) address_map: Option<AddressMap>,
    /// The loaded TLS configurations. Most nodes share the same one.
    read: RefCell<Vec<(TlsOptions, Tls)>>,
}

impl SharedSettings {
    /// Creates the shared options without reading a file.
    pub(crate) fn new(
        options: TlsOptions,
        client_name: Option<String>,
        source: Option<Arc<Ask>>,
        connect_timeout: Duration,
        address_map: Option<AddressMap>,
    ) -> Self {
        let (provider, read) = (source.map(Provider::new), RefCell::default());
        Self { options, client_name, provider, connect_timeout, address_map, read }
    }

    /// Returns the TLS configuration of the client combined with the options of a URL. `url` names the node in errors.
    pub(crate) fn tls(&self, added: &TlsOptions, url: &str) -> Result<Tls> {
        let options = self.options.merged(added, url)?;
        let mut read = self.read.borrow_mut();
        if let Some((_, tls)) = read.iter().find(|(known, _)| *known == options) {
            return Ok(tls.clone());
        }
        let tls = Tls::load(&options)?;
        read.push((options, tls.clone()));
        Ok(tls)
    }

    /// Whether the certificate of some node is not verified.
    pub(crate) fn unverified(&self) -> bool {
        self.read.borrow().iter().any(|(options, _)| !options.verifies())
    }
}
