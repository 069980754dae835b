//! Where a server is, and as whom to go there: the rules of `redis://`, `rediss://` and `unix://` URLs.
//!
//! It reads text and opens nothing. It also knows the password, and so is where a server's words are redacted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use super::dial::Family;
use super::query::{self, Parameters};
use super::shared::Shared;
use super::tls::Tls;
use super::tls::one;
use super::url_rules::{check, invalid_url, unreadable, without_zone};
use crate::error::{Error, Result};
use crate::node::credentials::{Credentials, Granted, Provider};
use crate::node::{Fault, client_name};
use crate::spelling::spelled;
use crate::text::shown;

/// Where a server is, and as whom to go there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// How to get there.
    pub(super) place: Place,
    /// As whom; `None`: as `default`, or as nobody where there is no password either.
    pub(super) username: Option<String>,
    /// Never shown: see [`Endpoint::redact`].
    pub(super) password: Option<String>,
    /// Selected at connect; 0 is where a connection begins.
    pub(super) db: i64,
    /// What stands after the ? of the URL.
    pub(super) parameters: Arc<Parameters>,
    /// How the connection is called there.
    pub(super) client_name: String,
    /// How long an attempt to connect may take.
    pub(super) connect_timeout: Duration,
    /// Who says as whom to log in, where the URL does not.
    pub(super) provider: Option<Provider>,
    /// Whom to trust there; filled in once the client's options were read.
    pub(super) tls: Option<Tls>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A host, by name or address, and its port.
    Tcp(String, u16),
    /// The same, behind TLS.
    Tls(String, u16),
    /// A socket of this machine.
    Unix(PathBuf),
}

/// How long an attempt to connect may take by default: name lookup, TCP, TLS, login and greeting.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// So long credentials are waited for: connecting with them must fit into an attempt, too.
const ASKING: Duration = Duration::from_millis(1500);

impl Endpoint {
    /// What the URL says, or the error that says which rule it broke.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|rule| invalid_url(text, &rule))
    }

    /// What the URL says, or the rule it broke: it may be a part of another one.
    pub(super) fn read(text: &str) -> std::result::Result<Self, String> {
        let (text, zone) = without_zone(text)?;
        let mut url = Url::parse(&text).map_err(unreadable)?;
        check(&url)?;
        // The parser knows TLS only with its own TLS stack; the scheme is all that differs.
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls && url.set_scheme("redis").is_err() {
            return Err("its scheme is unknown".into());
        }
        let parameters = query::read(url.query().unwrap_or_default())?;
        url.set_query(None);
        // Its own rules for hosts, ports and databases, so that a URL means what it means to other programs.
        let path = !matches!(url.path(), "" | "/");
        let info = url.into_connection_info().ok().filter(|info| info.redis_settings().db() >= 0);
        let info = info.ok_or("the path after the host must be a database number, 0 or more")?;
        let settings = info.redis_settings();
        let host =
            |host: &str| zone.map_or_else(|| host.to_owned(), |zone| format!("{host}%{zone}"));
        let place = match info.addr() {
            ConnectionAddr::Tcp(name, port) if tls => Place::Tls(host(name), *port),
            ConnectionAddr::Tcp(name, port) => Place::Tcp(host(name), *port),
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => return Err("its kind of connection is not supported".into()),
        };
        let path = path && !matches!(place, Place::Unix(_));
        let this = Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
            place,
            client_name: client_name::DEFAULT.to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            provider: None,
            tls: None,
            parameters: Arc::new(parameters),
        };
        this.with_parameters(path)
    }

    /// What stands after the ? says the same as what stands before it, or says it alone; `path`: a database does.
    fn with_parameters(mut self, path: bool) -> std::result::Result<Self, String> {
        let Parameters { db, username, password, family, tls_by, .. } = (*self.parameters).clone();
        if path && db.is_some_and(|db| db != self.db) {
            return Err("its path and its parameter db name two databases: write one".to_owned());
        }
        self.db = db.unwrap_or(self.db);
        let twice = (username.is_some() && self.username.is_some())
            || (password.is_some() && self.password.is_some());
        if twice {
            return Err("a user or a password stands before the @ and after the ?: write it once"
                .to_owned());
        }
        self.username = self.username.or(username);
        self.password = self.password.or(password);
        // Some clients log in as nobody then, and redis-cli takes it for the password.
        if self.username.is_some() && self.password.as_deref().is_none_or(str::is_empty) {
            return Err(
                "it has a user without a password: write user:pass@host, or :pass@host for a password alone"
                    .to_owned(),
            );
        }
        if let (Some(by), false) = (tls_by, self.is_tls()) {
            return Err(format!("its parameter {by} is for TLS: write rediss:// for it"));
        }
        if family.is_some() && matches!(self.place, Place::Unix(_)) {
            return Err("a socket has no family of addresses: leave the parameter out".to_owned());
        }
        Ok(self)
    }

    /// The URL without user, password and database, written in one way.
    fn place(&self) -> String {
        let scheme = match &self.place {
            Place::Tcp(..) => "redis",
            Place::Tls(..) => "rediss",
            Place::Unix(_) => "unix",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// The host and its port, or the path: what stands behind the scheme.
    pub(super) fn authority(&self) -> String {
        match &self.place {
            // An IPv6 address, which the parser has taken out of its brackets.
            Place::Tcp(host, port) | Place::Tls(host, port) if host.contains(':') => {
                format!("[{}]:{port}", host.replace('%', "%25"))
            }
            Place::Tcp(host, port) | Place::Tls(host, port) => format!("{host}:{port}"),
            Place::Unix(path) => path.display().to_string(),
        }
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tls(..))
    }

    /// The same place, reached with the options that all nodes of a client share.
    pub(crate) fn with(mut self, shared: &Shared) -> Result<Self> {
        let url = self.redacted();
        self.connect_timeout = shared.connect_timeout;
        if self.is_tls() {
            self.tls = Some(shared.tls(&self.parameters.tls, &url)?);
        }
        if let Some(given) = &self.parameters.client_name {
            one(shared.client_name.as_ref(), Some(&given.value), (given.by, "client_name", &url))?;
            self.client_name.clone_from(&given.value);
        } else if let Some(name) = &shared.client_name {
            self.client_name.clone_from(name);
        }
        Ok(self)
    }

    /// The same place, where somebody says at each connect as whom to log in.
    pub(super) fn asking(mut self, shared: &Shared) -> Result<Self> {
        self.provider.clone_from(&shared.provider);
        if self.provider.is_none() || (self.username.is_none() && self.password.is_none()) {
            return Ok(self);
        }
        Err(Error::invalid(format!(
            "{} is given, and node {} has a user or a password in its URL: give one of them",
            spelled("credentials"),
            self.redacted()
        )))
    }

    /// Who logs in, where somebody has to be asked.
    pub(super) async fn granted(&self) -> std::result::Result<Option<Granted>, Fault> {
        match &self.provider {
            Some(provider) => provider.get(ASKING).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same place, to log in there with these.
    pub(super) fn with_login(&self, granted: &Credentials) -> Self {
        let username = granted.username.clone();
        Self { username, password: Some(granted.password.clone()), ..self.clone() }
    }

    /// Which addresses of the host are tried.
    pub(super) fn family(&self) -> Family {
        match self.parameters.family {
            Some(4) => Family::V4,
            Some(6) => Family::V6,
            _ => Family::Any,
        }
    }

    /// What makes two entries of a node list one node: the place and the database, whoever logs in.
    ///
    /// It cannot see that two names are one server: that is found out at connect, by the server's own word
    /// (`run_ids`).
    pub(crate) fn identity(&self) -> String {
        let place = self.place();
        // The names of hosts are the same in any case, those of files are not.
        let place = if matches!(self.place, Place::Unix(_)) { place } else { place.to_lowercase() };
        format!("{place}/{}", self.db)
    }

    /// The fault with the server's own words redacted.
    pub(super) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|words| self.redact(words))
    }

    /// A server's own words as everybody may see them: without the password, which some repeat, on one line, and cut.
    pub(super) fn redact(&self, text: &str) -> String {
        shown(&self.without_password(text))
    }

    /// The words without the password, and still as long as they came.
    pub(super) fn without_password(&self, text: &str) -> String {
        let text = match self.password.as_deref() {
            // An empty one is in every text.
            None | Some("") => text.to_owned(),
            Some(password) => text.replace(password, "***"),
        };
        self.provider.as_ref().map_or_else(|| text.clone(), |provider| provider.redact(&text))
    }

    /// The URL without user and password.
    pub(crate) fn redacted(&self) -> String {
        match self.db {
            // As most people write it.
            0 => self.place(),
            db => format!("{}/{db}", self.place()),
        }
    }
}
