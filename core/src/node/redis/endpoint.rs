//! Where a server is, and as whom to go there: the rules of `redis://`, `rediss://` and `unix://` URLs.
//!
//! It reads text and opens nothing. It also knows the password, and so is where a server's words are redacted.

use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use super::tls::Tls;
use crate::error::{Error, Result};
use crate::node::Fault;
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

/// What can be given: every refusal ends with it.
const SCHEMES: &str = "use redis://[user:pass@]host[:port][/db], rediss:// for TLS, redis+sentinel://host,host/service, unix:///path or memory://[name]";

impl Endpoint {
    /// What the URL says, or the error that says which rule it broke.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|rule| invalid_url(text, &rule))
    }

    /// What the URL says, or the rule it broke: it may be a part of another one.
    pub(super) fn read(text: &str) -> std::result::Result<Self, String> {
        let mut url = Url::parse(text).map_err(unreadable)?;
        check(&url)?;
        // The parser knows TLS only with its own TLS stack; the scheme is all that differs.
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls && url.set_scheme("redis").is_err() {
            return Err("its scheme is unknown".into());
        }
        // Its own rules for hosts, ports and databases, so that a URL means what it means to other programs.
        let info = url
            .into_connection_info()
            .map_err(|_| "the path after the host must be a database number")?;
        let settings = info.redis_settings();
        // Some clients log in as nobody then, and redis-cli takes it for the password.
        if settings.username().is_some() && settings.password().is_none_or(str::is_empty) {
            return Err(
                "it has a user without a password: write user:pass@host, or :pass@host for a password alone"
                    .into(),
            );
        }
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) if tls => Place::Tls(host.clone(), *port),
            ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port),
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => return Err("its kind of connection is not supported".into()),
        };
        Ok(Self {
            place,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
            tls: None,
        })
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
                format!("[{host}]:{port}")
            }
            Place::Tcp(host, port) | Place::Tls(host, port) => format!("{host}:{port}"),
            Place::Unix(path) => path.display().to_string(),
        }
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tls(..))
    }

    /// The same place, reached with these TLS options.
    pub(crate) fn with_tls(self, tls: &Tls) -> Self {
        Self { tls: Some(tls.clone()), ..self }
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
        match self.password.as_deref() {
            // An empty one is in every text.
            None | Some("") => text.to_owned(),
            Some(password) => text.replace(password, "***"),
        }
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

/// What the parser lets pass and no node can mean; the rule that it broke.
///
/// What would be ignored is refused: whoever wrote it believes that it does something.
fn check(url: &Url) -> std::result::Result<(), &'static str> {
    let unix = url.scheme() == "unix";
    // A path has no room for these: they stand behind it.
    let unknown = |key: &str| !(unix && matches!(key, "db" | "user" | "pass"));
    if url.query_pairs().any(|(key, _)| unknown(&key)) {
        return Err(if unix {
            "a parameter after the ? is none of db, user and pass"
        } else {
            "parameters after a ? are unknown"
        });
    }
    let hosts = url.host_str().is_some_and(|host| !host.is_empty());
    if hosts && unix {
        return Err("a path has no host: write three slashes");
    }
    if !hosts && !unix {
        return Err("it names no host");
    }
    // Else the end of the password would be looked up as a host, and shown in errors.
    if url.host_str().is_some_and(|host| host.contains('%')) {
        return Err("its host has a %: is the @ after a password written as %40?");
    }
    if url.fragment().is_some() {
        return Err("what follows the # is unknown");
    }
    Ok(())
}

/// What is not accepted is not quoted beyond its scheme: a password may stand anywhere in a URL that somebody got
/// wrong.
pub(crate) fn invalid_url(text: &str, rule: &str) -> Error {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    // What cannot be a scheme may be the beginning of a password.
    let plain = |c: char| c.is_ascii_lowercase() || c == '+';
    let node = if scheme.is_empty() || scheme.len() > 16 || !scheme.chars().all(plain) {
        "a node".to_owned()
    } else {
        format!("a node ({scheme}://...)")
    };
    Error::invalid(format!("{node} cannot be used: {rule}; {SCHEMES}"))
}

/// The parser's own words name no part of the text.
fn unreadable(error: url::ParseError) -> String {
    format!(
        "{error}, as far as it can be read; write @, :, / and the like in a password as %40, %3A, %2F"
    )
}
