//! The options of the client, which every command has.

use std::path::PathBuf;
use std::time::Duration;

use redlock::ffi::{check_excludes_others, default_nodes, shown};
use redlock::{Builder, Lock, Redlock, Result, TlsOptions};
use serde_json::json;

use crate::report::{Report, print_message};
use crate::status::{Status, USAGE};
use crate::times;

/// How many permits a semaphore has at most.
const MAX_PERMITS: u32 = 1000;

/// The lock space: the servers, and the options that all their clients must share.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Servers")]
pub(crate) struct Connection {
    /// A node, such as `redis://127.0.0.1:6379`. Repeat it for a quorum of independent servers.
    ///
    /// Without it, the environment variables `REDLOCK_NODES` and `REDIS_URL` apply, as for the libraries. Prefer
    /// them for URLs with a password, because other users can read the arguments of a process.
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
    /// The prefix before every name [default: lock:]
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// How long a restarted node grants no new lease [default: 60s over several nodes]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    restart_guard: Option<Duration>,
    /// How long to wait for the reply of one node [default: min(1s, ttl/5), with --fsync min(3s, ttl/3)]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    node_timeout: Option<Duration>,
    /// How long one attempt to connect may take [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    connect_timeout: Option<Duration>,
    /// How many replicas of a node must confirm each grant [default: 0]
    #[arg(long, value_name = "NUMBER")]
    min_replicas: Option<u32>,
    /// Each grant must be on disk before it counts
    #[arg(long)]
    fsync: bool,
    /// A PEM file with the certificates to trust
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// A PEM file with the certificate to present
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Connection {
    /// Creates the client. Sends nothing.
    pub(crate) fn client(&self) -> Result<Redlock> {
        let mut client = self.nodes()?;
        if let Some(prefix) = &self.key_prefix {
            client = client.key_prefix(prefix);
        }
        if let Some(guard) = self.restart_guard {
            client = client.restart_guard(guard);
        }
        if let Some(timeout) = self.node_timeout {
            client = client.node_timeout(timeout);
        }
        if let Some(timeout) = self.connect_timeout {
            client = client.connect_timeout(timeout);
        }
        if let Some(replicas) = self.min_replicas {
            client = client.min_replicas(replicas);
        }
        if self.fsync {
            client = client.fsync(true);
        }
        let client = self.tls(client).client_name("redlock-cli").build()?;
        check_excludes_others(&client)?;
        Ok(client)
    }

    /// The same options for these nodes, if there are any.
    pub(crate) fn at(&self, urls: &[String]) -> Self {
        let url = if urls.is_empty() { self.url.clone() } else { urls.to_vec() };
        Self { url, ..self.clone() }
    }

    /// Creates the client of one node alone, which a guard of several nodes does not concern.
    pub(crate) fn client_of(&self, url: &str) -> Result<Redlock> {
        let alone = Self { restart_guard: Some(Duration::ZERO), ..self.at(&[url.to_owned()]) };
        alone.client()
    }

    /// The URLs of the nodes, with their passwords.
    pub(crate) fn urls(&self) -> Result<Vec<String>> {
        let variable = |name| std::env::var(name).ok();
        if self.url.is_empty() {
            return default_nodes(variable("REDLOCK_NODES"), variable("REDIS_URL"));
        }
        Ok(self.url.clone())
    }

    fn nodes(&self) -> Result<Builder> {
        if !self.url.is_empty() {
            return Ok(Redlock::builder(&self.url));
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !["REDLOCK_NODES", "REDIS_URL"].into_iter().any(is_set) {
            // Each machine would lock for itself only, which must not remain unnoticed.
            print_message(
                "neither --url nor REDLOCK_NODES nor REDIS_URL is set: using redis://127.0.0.1:6379",
            );
        }
        Builder::from_env()
    }

    fn tls(&self, client: Builder) -> Builder {
        if self.tls_ca.is_none() && self.tls_cert.is_none() {
            return client;
        }
        let mut tls = TlsOptions::new();
        if let Some(file) = &self.tls_ca {
            tls = tls.ca(file.clone());
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.cert(cert.clone()).key(key.clone());
        }
        client.tls(tls)
    }
}

/// A lock that a command looks at.
#[derive(clap::Args)]
pub(crate) struct Subject {
    /// The name of the lock, without the key prefix
    pub(crate) name: String,
    /// The lock is a semaphore with this many permits
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u32>,
    #[command(flatten)]
    connection: Connection,
}

impl Subject {
    pub(crate) fn open(&self) -> Result<Opened<'_>> {
        let client = self.connection.client()?;
        let lock = match self.limit {
            Some(limit) => client.semaphore(&*self.name, limit),
            None => client.lock(&*self.name),
        };
        Ok(Opened { subject: self, client, lock })
    }
}

/// That lock, of a client.
pub(crate) struct Opened<'a> {
    subject: &'a Subject,
    client: Redlock,
    pub(crate) lock: Lock,
}

impl Opened<'_> {
    /// Refuses a name without a lock that is one of a semaphore with taken permits, which its lock does not show.
    /// Returns the exit status then.
    pub(crate) async fn refuse_semaphore(&self, report: Report) -> Option<Status> {
        if self.subject.limit.is_some() {
            return None;
        }
        let name = &self.subject.name;
        // The number of its permits is not stored anywhere. A user without the right to their keys has no semaphore.
        let found = self.client.semaphore(&**name, MAX_PERMITS).inspect().await;
        let taken = found.ok()?.taken;
        if taken == 0 {
            return None;
        }
        let permits = if taken == 1 { "1 permit is" } else { &format!("{taken} permits are") };
        let message = format!(
            "{} is a semaphore, of which {permits} taken. Pass the number of all its permits as --limit",
            shown(name)
        );
        report.problem("failed", json!({ "code": "invalid", "message": message }), &message);
        Some(USAGE)
    }
}
