//! Node URLs: what they may say, and how they are written without their password.

use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use super::tls::Tls;
use crate::error::{Error, Result};
use crate::text::shown;

/// Where a node is, and as whom to go there.
#[derive(Clone)]
pub(crate) enum Address {
    Memory(String),
    Server(Server),
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(super) place: Place,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
    pub(super) tls: Option<Tls>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

const SCHEMES: &str =
    "use redis://[user:pass@]host[:port][/db], rediss:// for TLS, unix:///path or memory://[name]";

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(invalid(text, "it has no scheme"));
        };
        match scheme {
            "memory" if rest.contains(['@', '?', '#']) => {
                Err(invalid(text, "a name in memory has no @, ? or #"))
            }
            "memory" => Ok(Self::Memory(rest.trim_end_matches('/').to_owned())),
            "redis" | "rediss" | "valkey" | "valkeys" | "unix" => {
                Server::parse(text).map(Self::Server)
            }
            "redis+sentinel" | "redis+cluster" => {
                Err(invalid(text, "Sentinel and Cluster are not supported yet"))
            }
            _ => Err(invalid(text, "its scheme is unknown")),
        }
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Server(server) if matches!(server.place, Place::Tls(..)))
    }

    /// The same place, reached with these TLS options.
    pub(crate) fn with_tls(self, tls: &Tls) -> Self {
        match self {
            Self::Server(server) => Self::Server(Server { tls: Some(tls.clone()), ..server }),
            memory @ Self::Memory(_) => memory,
        }
    }

    /// The URL without its password: what errors, logs and `repr` show, and what tells two nodes apart.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Memory(name) => format!("memory://{name}"),
            Self::Server(server) => server.redacted(),
        }
    }

    /// What makes two entries of a node list one node: the place and the database, whoever logs in.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Memory(name) => format!("memory://{name}"),
            Self::Server(server) => server.identity(),
        }
    }
}

impl Server {
    fn parse(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|error| invalid(text, &unreadable(error)))?;
        let unknown =
            |key: &str| !(url.scheme() == "unix" && matches!(key, "db" | "user" | "pass"));
        if url.query_pairs().any(|(key, _)| unknown(&key)) {
            let rule = if url.scheme() == "unix" {
                "a parameter after the ? is none of db, user and pass"
            } else {
                "parameters after a ? are unknown"
            };
            return Err(invalid(text, rule));
        }
        let hosts = url.host_str().is_some_and(|host| !host.is_empty());
        if hosts == (url.scheme() == "unix") {
            let rule =
                if hosts { "a path has no host: write three slashes" } else { "it names no host" };
            return Err(invalid(text, rule));
        }
        if url.host_str().is_some_and(|host| host.contains('%')) {
            return Err(invalid(
                text,
                "its host has a %: is the @ after a password written as %40?",
            ));
        }
        if url.fragment().is_some() {
            return Err(invalid(text, "what follows the # is unknown"));
        }
        // The parser knows TLS only with its own TLS stack; the scheme is all that differs.
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls && url.set_scheme("redis").is_err() {
            return Err(invalid(text, "its scheme is unknown"));
        }
        let info = url
            .into_connection_info()
            .map_err(|_| invalid(text, "the path after the host must be a database number"))?;
        let settings = info.redis_settings();
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) if tls => Place::Tls(host.clone(), *port),
            ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port),
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => return Err(invalid(text, "its kind of connection is not supported")),
        };
        Ok(Self {
            place,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
            tls: None,
        })
    }

    fn place(&self) -> String {
        let at = |scheme: &str, host: &str, port: u16| {
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            format!("{scheme}://{host}:{port}")
        };
        match &self.place {
            Place::Tcp(host, port) => at("redis", host, *port),
            Place::Tls(host, port) => at("rediss", host, *port),
            Place::Unix(path) => format!("unix://{}", path.display()),
        }
    }

    fn identity(&self) -> String {
        let place = self.place();
        // The names of hosts are the same in any case, those of files are not.
        let place = if matches!(self.place, Place::Unix(_)) { place } else { place.to_lowercase() };
        format!("{place}/{}", self.db)
    }

    /// A server's own words as everybody may see them: without the password, which some repeat, on one line, and cut.
    pub(super) fn hush(&self, text: &str) -> String {
        match self.password.as_deref() {
            None | Some("") => shown(text),
            Some(password) => shown(&text.replace(password, "***")),
        }
    }

    fn redacted(&self) -> String {
        match self.db {
            0 => self.place(),
            db => format!("{}/{db}", self.place()),
        }
    }
}

/// What is not accepted is not quoted beyond its scheme: a password may stand anywhere in it.
fn invalid(text: &str, rule: &str) -> Error {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let plain = |c: char| c.is_ascii_lowercase() || c == '+';
    let node = if scheme.is_empty() || scheme.len() > 16 || !scheme.chars().all(plain) {
        "a node".to_owned()
    } else {
        format!("a node ({scheme}://...)")
    };
    Error::invalid(format!("{node} cannot be used: {rule}; {SCHEMES}"))
}

fn unreadable(error: url::ParseError) -> String {
    format!(
        "{error}, as far as it can be read; write @, :, / and the like in a password as %40, %3A, %2F"
    )
}
