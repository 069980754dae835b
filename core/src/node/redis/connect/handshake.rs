//! Performs the handshake of a connection: login, protocol, server age, permissions and scripts.
//!
//! Every feature that locks need is checked here in one pipelined batch. A missing feature is then reported at connect
//! and not at the first lock.

use std::time::Duration;

use redis::{Cmd, ServerError, Value, cmd};

use super::{Discovery, check_kind, is_master, is_primary};
use crate::node::Fault;
use crate::node::credentials::{Granted, Provider};
use crate::node::redis::commands::capabilities::{
    Capabilities, Feature, Needs, is_refused, is_reply,
};
use crate::node::redis::commands::errors::{
    has_code, is_missing, is_replicas, is_unsupported, text_of,
};
use crate::node::redis::commands::reply::{self, field, text};
use crate::node::redis::commands::scripts::load_scripts;
use crate::node::redis::io::endpoint::Endpoint;
use crate::node::redis::io::step;
use crate::node::redis::login::BatchConnection;
use crate::node::redis::login::{Hello, connect, refused};
use crate::node::redis::state::restart_guard::wait_of;

/// A connection that is ready for locks.
pub(crate) struct Greeting {
    /// The open connection, with any bytes that were read after the handshake.
    pub(crate) connection: BatchConnection,
    /// How long the server must not take first votes. `None` if its age cannot be read.
    pub(crate) votes_in: Option<Duration>,
    /// The run ID of the server, if it reports one.
    pub(crate) run_id: Option<String>,
    /// The eviction policy of the server, if it reports that.
    pub(crate) eviction: Option<String>,
    /// The ID of this connection at the server, if it reports one. The next connection uses it to close this one.
    pub(crate) id: Option<i64>,
    /// The credentials of the login and their provider, if there is one.
    pub(crate) login: Option<(Provider, Granted)>,
    /// What the server, or a proxy in front of it, supports.
    pub(crate) supported: Capabilities,
}

/// What a server is for the client, which decides which role it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// The one at the address of the node.
    Standalone,
    /// The one that sentinels report as the primary.
    Primary,
    /// One of a cluster. It may be a replica: it then redirects votes, and reports the owners of slots.
    ClusterMember,
}

/// Connects and sends the requests of the handshake. If the server closes the connection twice, only the requests that
/// locks need are sent. If it is `known` what to try, there is only one connection.
async fn ask_all(
    endpoint: &Endpoint,
    kind: ServerKind,
    needs: &Needs,
    known: Option<Capabilities>,
) -> Result<(BatchConnection, Findings, Vec<(HandshakeStep, Value)>), Fault> {
    let (mut supported, mut hung_up) = (known.unwrap_or_default(), false);
    loop {
        let (mut connection, hello) = connect(endpoint, &mut supported, known.is_some()).await?;
        let minimal = !supported.has(Feature::Extras);
        let mut steps = steps(endpoint, hello.as_ref(), needs, minimal);
        let hello = hello.unwrap_or_default();
        // A replica needs no further commands. Sentinels require `ROLE`, which is newer.
        if let (Some(role), ServerKind::Standalone) = (hello.role_alone(), kind) {
            is_master(role)?;
        }
        if kind == ServerKind::Primary {
            // Sent first, because the other replies of a replica do not matter.
            steps.insert(0, (HandshakeStep::Role, cmd("ROLE")));
        }
        let (steps, commands): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        match connection.request(&commands).await {
            Ok(replies) => {
                // Until a reply says otherwise, there is no tracking.
                supported.set(Feature::Tracking, false);
                supported.set(Feature::Digests, supported.has(Feature::Extras));
                let Hello { id, role, .. } = hello;
                let found = Findings { supported, id, role, ..Findings::default() };
                return Ok((connection, found, steps.into_iter().zip(replies).collect()));
            }
            Err(fault)
                if fault.is_hung_up() && supported.has(Feature::Extras) && known.is_none() =>
            {
                supported.set(Feature::Extras, !hung_up);
                supported.doubtful |= hung_up;
                hung_up = true;
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Connects, sends the requests of the handshake, and evaluates each reply.
async fn examine(
    endpoint: &Endpoint,
    kind: ServerKind,
    needs: &Needs,
    known: Option<Capabilities>,
) -> Result<(BatchConnection, Findings), Fault> {
    let (mut connection, mut found, replies) = ask_all(endpoint, kind, needs, known).await?;
    let is_reply =
        |(step, reply): &_| matches!(step, HandshakeStep::Right(name) if is_reply(name, reply));
    found.replied = replies.iter().any(is_reply);
    for (step, reply) in replies {
        found.record_step(endpoint, needs, step, reply)?;
    }
    if let (Some(fault), true) = (found.no_digests.take(), found.lacking.is_empty()) {
        let reply = connection.request(&[needs.eval()]).await?.remove(0);
        let unsupported = || is_unsupported(&reply).then_some(fault);
        found.lacking.extend(needs.lack("EVAL", &reply, found.replied).or_else(unsupported));
        found.supported.set(Feature::Digests, false);
    }
    Ok((connection, found))
}

/// Connects and performs the handshake. A replica is an error, unless the server belongs to a cluster. The server's
/// text in errors is not redacted yet.
pub(super) async fn greet(
    endpoint: &Endpoint,
    kind: ServerKind,
    guard: Duration,
    needs: &Needs,
    discovery: Discovery,
) -> Result<Greeting, Fault> {
    // Requested before the connection is opened, because servers close an idle connection without a login.
    step::enter("the credentials");
    let granted = endpoint.granted().await?;
    let login = granted.as_ref().map(|granted| endpoint.with_login(&granted.credentials));
    let endpoint = login.as_ref().unwrap_or(endpoint);
    let clustered = kind == ServerKind::ClusterMember;
    let known = match discovery {
        Discovery::Full => None,
        Discovery::IfAlive => {
            let minimal = Some(Capabilities::minimal());
            drop(examine(endpoint, kind, needs, minimal).await?);
            None
        }
        Discovery::Known(supported) => Some(supported),
    };
    let (mut connection, found) = examine(endpoint, kind, needs, known).await?;
    // Checked before missing features, because a server of another kind may lack them. Valkey renamed this field.
    let mode = field(&found.about, "redis_mode").or_else(|| field(&found.about, "server_mode"));
    check_kind(&mut connection, mode, endpoint, clustered).await?;
    if !clustered {
        found.replica.map_or(Ok(()), Err)?;
        let role = found.role.as_deref().or(field(&found.about, "role"));
        role.map_or(Ok(()), is_master)?;
    }
    found.lacking.into_iter().next().map_or(Ok(()), Err)?;
    let (about, mut supported) = (found.about, found.supported);
    let (own, votes_in) = (|name| field(&about, name).map(str::to_owned), votes_in(&about, guard));
    // The server's clock may be corrected later, or its user may receive the right.
    supported.set(Feature::Uptime, votes_in.is_some() || guard.is_zero());
    supported.doubtful |= !supported.has(Feature::Uptime);
    Ok(Greeting {
        connection,
        votes_in,
        run_id: own("run_id"),
        eviction: own("maxmemory_policy"),
        id: found.id,
        login: endpoint.provider.clone().zip(granted),
        supported,
    })
}

/// The results of the handshake.
#[derive(Default)]
struct Findings {
    supported: Capabilities,
    about: String,
    id: Option<i64>,
    /// The role of the server, if its reply to `HELLO` contains it.
    role: Option<String>,
    /// Whether it replied to a trial on the key.
    replied: bool,
    /// The error of a replica that refused a write.
    replica: Option<Fault>,
    /// Missing features that locks need.
    lacking: Vec<Fault>,
    /// Why scripts must be sent in full.
    no_digests: Option<Fault>,
}

impl Findings {
    /// Handles the reply to one step. Returns an error if this is the wrong server.
    fn record_step(
        &mut self,
        endpoint: &Endpoint,
        needs: &Needs,
        step: HandshakeStep,
        reply: Value,
    ) -> Result<(), Fault> {
        match (step, reply) {
            (HandshakeStep::Role, role) => is_primary(&role)?,
            (HandshakeStep::Script, Value::ServerError(error))
                if has_code(&error) && !is_missing(&error, self.replied) =>
            {
                self.lacking.push(refused(&error));
            }
            // The first error is about `SCRIPT LOAD` and explains more than the later ones.
            (HandshakeStep::Script, Value::ServerError(error)) => {
                self.no_digests.get_or_insert_with(|| refused(&error));
            }
            (HandshakeStep::Right("EVALSHA"), reply) if is_unsupported(&reply) => {
                self.no_digests =
                    self.no_digests.take().or(needs.lack("EVALSHA", &reply, self.replied));
            }
            (HandshakeStep::Database, Value::ServerError(error)) => {
                self.lacking.push(no_database(endpoint.db, &error));
            }
            (HandshakeStep::Right(_), reply) if is_replicas(&reply) => {
                self.replica.get_or_insert_with(|| reply::unexpected(&reply));
            }
            (HandshakeStep::Right(name), reply) => {
                self.lacking.extend(needs.lack(name, &reply, self.replied));
            }
            (HandshakeStep::Saves(feature), reply) => {
                let is_refused = is_refused(feature.command(), &reply, self.replied);
                self.supported.set(feature, !is_refused);
            }
            // Without tracking locks still work, and waiters poll.
            (HandshakeStep::Tracking, reply) => {
                self.supported.set(Feature::Tracking, reply == Value::Okay);
            }
            // Not every server ends a section with a line break.
            (HandshakeStep::About, reply) => self.about.extend([&*text(&reply), "\n"]),
            (HandshakeStep::Id, Value::Int(own)) => self.id = Some(own),
            _ => {}
        }
        Ok(())
    }
}

/// The errors of Redis and Valkey for a database that does not exist.
const NO_DATABASE: [&str; 3] = [
    "ERR DB index is out of range",
    "ERR invalid DB index",
    "ERR SELECT is not allowed in cluster mode",
];

/// The error of a server that refuses `SELECT`.
fn no_database(db: i64, error: &ServerError) -> Fault {
    let said = text_of(error);
    // Other errors with this code come from a proxy whose server is down.
    if !NO_DATABASE.iter().any(|words| said.starts_with(words)) {
        return refused(error);
    }
    let text = format!("cannot select database {db}; the server replied ");
    let hint = " (use a lower number, or raise `databases` in the server's configuration)";
    Fault::new(text).saying(&said, hint).refused()
}

/// Returns how long the server takes no first vote. Returns `None` if its uptime cannot be read, as on a server whose
/// clock went back before its start.
fn votes_in(about: &str, guard: Duration) -> Option<Duration> {
    let uptime = Duration::from_secs(field(about, "uptime_in_seconds")?.parse().ok()?);
    Some(wait_of(uptime, guard))
}

/// The purpose of a request.
pub(crate) enum HandshakeStep {
    /// An error is ignored.
    Optional,
    /// Whether the server is a primary, if that is required.
    Role,
    /// Whether the server stores scripts.
    Script,
    /// Whether the database exists.
    Database,
    /// Whether the server pushes changes.
    Tracking,
    /// Whether the user may run this command.
    Right(&'static str),
    /// Whether the user may run a command that only saves work.
    Saves(Feature),
    /// The server's description.
    About,
    /// The ID of the connection at the server.
    Id,
}

/// Returns the requests with their purposes, after the reply to `HELLO`, if the server knows it. With `minimal`, only
/// those that locks need.
fn steps(
    endpoint: &Endpoint,
    hello: Option<&Hello>,
    needs: &Needs,
    minimal: bool,
) -> Vec<(HandshakeStep, Cmd)> {
    let trial = |(name, try_it)| (HandshakeStep::Right(name), try_it);
    let select = cmd("SELECT").arg(endpoint.db).clone();
    let select = (endpoint.db != 0).then_some((HandshakeStep::Database, select));
    let saves = |(command, try_it)| (HandshakeStep::Saves(command), try_it);
    let reads = needs.optional_reads(minimal).into_iter().map(saves);
    let trials = needs.trials(!minimal).into_iter().map(trial).chain(reads);
    if minimal {
        return select.into_iter().chain(trials).collect();
    }
    let mut steps = vec![(
        HandshakeStep::Optional,
        cmd("CLIENT").arg("SETNAME").arg(&endpoint.client_name).clone(),
    )];
    // Separate from the name that users choose. Supported since Redis 7.2.
    for (what, value) in [("LIB-NAME", "redlock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
        let about_us = cmd("CLIENT").arg("SETINFO").arg(what).arg(value).clone();
        steps.push((HandshakeStep::Optional, about_us));
    }
    steps.extend(select);
    let has_role = hello.is_some_and(|hello| hello.role.is_some());
    let replication = (!has_role).then_some("replication");
    for section in ["server", "memory"].into_iter().chain(replication) {
        steps.push((HandshakeStep::About, cmd("INFO").arg(section).clone()));
    }
    // Loaded at every connect, so that `EVALSHA` fails only after a flush of the scripts.
    steps.extend(load_scripts(false).map(|load| (HandshakeStep::Script, load)));
    steps.extend(trials);
    // Enabled after the trials, so that the server does not track their key.
    if hello.is_some() {
        // With `OPTOUT` the server tracks every key that is read, unless `CACHING NO` precedes the read. `NOLOOP`
        // excludes our own changes.
        let tracking = ["TRACKING", "ON", "OPTOUT", "NOLOOP"];
        steps.push((HandshakeStep::Tracking, cmd("CLIENT").arg(&tracking).clone()));
        let caching = cmd("CLIENT").arg(&["CACHING", "NO"]).clone();
        steps.push((HandshakeStep::Saves(Feature::Caching), caching));
    } else {
        steps.push((HandshakeStep::Id, cmd("CLIENT").arg("ID").clone()));
    }
    // Last, because `CLIENT CACHING` affects the next command that is not `CLIENT`.
    steps.push((HandshakeStep::Saves(Feature::Ping), cmd("PING")));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Remedy;

    #[test]
    fn only_known_errors_mean_that_a_database_is_missing() {
        for (reply, remedy) in [
            ("-ERR DB index is out of range", Remedy::Refused),
            ("-ERR invalid DB index", Remedy::Refused),
            ("-ERR SELECT is not allowed in cluster mode", Remedy::Refused),
            ("-ERR the database is not reachable", Remedy::Retry),
            ("-ERR no server could be selected", Remedy::Retry),
            ("-LOADING Redis is loading the dataset in memory", Remedy::Retry),
        ] {
            let value = redis::parse_redis_value(format!("{reply}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = value else { panic!("{reply}: {value:?}") };
            assert_eq!(no_database(9, &error).remedy(), remedy, "{reply}");
        }
    }
}
