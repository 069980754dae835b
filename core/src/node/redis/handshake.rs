//! Opening a connection: who we are, which protocol, how old the server is, and our scripts.
//!
//! Everything that a lock relies on is asked here, once, and pipelined: a server that lacks something is told
//! of now, not at the first lock. What becomes of the connection afterwards is the session's.

use std::time::Duration;

use redis::{Cmd, ServerError, Value, cmd};

use super::endpoint::Endpoint;
use super::login::{log_in, no_redis, refused};
use super::native::Delete;
use super::refusal::words;
use super::rights::Needs;
use super::script::scripts;
use super::stream::Stream;
use super::talk::{Talk, cannot_connect};
use crate::error::seconds;
use crate::node::Fault;
use crate::node::credentials::{Granted, Provider};

/// A connection that is ready for locks.
pub(super) struct Greeting {
    /// The open connection, with whatever the server has said beyond the greeting.
    pub(super) talk: Talk,
    /// The server tells of changed keys.
    pub(super) pushes: bool,
    /// How long the server may not take first votes; `None`: its age cannot be read.
    pub(super) votes_in: Option<Duration>,
    /// Which run of which server it is, where it says so.
    pub(super) run_id: Option<String>,
    /// Whether it is one of a cluster's servers, where it says so.
    pub(super) clustered: Option<bool>,
    /// What it does when its memory is full, where it says so.
    pub(super) eviction: Option<String>,
    /// What the server calls this connection, where it says so.
    /// By it the successor has it ended.
    pub(super) id: Option<i64>,
    /// With what we logged in, where somebody had to be asked, and who that is.
    pub(super) login: Option<(Provider, Granted)>,
    /// How it deletes without a script, if that is wanted.
    pub(super) deletes_by: Option<Delete>,
}

/// What `PING` is to say back.
const NAMED: &str = "x";

/// No connection within this time.
pub(super) fn too_long(within: Duration) -> Fault {
    Fault::new(format!("no connection within {}", seconds(within)))
}

/// Connects and logs in. `primary`: to one that is a replica nobody comes for a lock.
pub(super) async fn open(
    endpoint: &Endpoint,
    primary: bool,
    guard: Duration,
    needs: &Needs,
) -> Result<Greeting, Fault> {
    let greeted = greet(endpoint, primary, guard, needs).await;
    greeted.map_err(|fault| endpoint.redact_fault(fault))
}

/// The name shows in CLIENT LIST, for whoever looks for the cause of a load.
pub(super) fn named(endpoint: &Endpoint) -> Cmd {
    cmd("CLIENT").arg("SETNAME").arg(&endpoint.client_name).clone()
}

/// Connects, and says who we are; with our own id, if it speaks RESP3 and says it.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<(Talk, Option<Option<i64>>), Fault> {
    let stream = Stream::connect(endpoint).await.map_err(|error| cannot_connect(&error))?;
    // First and alone: which protocol the rest is answered in depends on it.
    let mut talk = Talk::over(stream);
    let hello = log_in(&mut talk, endpoint).await?;
    Ok((talk, hello))
}

/// [`open`], with the server's own words in its fault.
async fn greet(
    endpoint: &Endpoint,
    primary: bool,
    guard: Duration,
    needs: &Needs,
) -> Result<Greeting, Fault> {
    // Before anything is opened: a server ends who says nothing for long.
    let granted = endpoint.granted().await?;
    let login = granted.as_ref().map(|granted| endpoint.with_login(&granted.credentials));
    let endpoint = login.as_ref().unwrap_or(endpoint);
    let (mut talk, hello) = connect(endpoint).await?;
    let mut steps = steps(endpoint, hello.is_some(), needs);
    if primary {
        // First: what a replica says to the rest is beside the point.
        steps.insert(0, (Step::Role, cmd("ROLE")));
    }
    let commands: Vec<Cmd> = steps.iter().map(|(_, command)| command.clone()).collect();
    let (mut pushes, mut about, mut id) = (false, String::new(), hello.flatten());
    let (mut deletes, mut named, mut required) = (Vec::new(), false, Vec::new());
    for ((step, _), answer) in steps.iter().zip(talk.ask(&commands).await?) {
        match (step, answer) {
            (Step::Role, role) => is_primary(&role)?,
            (Step::Required, Value::ServerError(error)) => required.push(refused(&error)),
            (Step::Database, Value::ServerError(error)) => {
                required.push(no_database(endpoint.db, &error))
            }
            (Step::Right(name), answer) => required.extend(needs.lack(name, &answer)),
            (Step::Delete(by), answer) => deletes.push((*by, answer)),
            (Step::Named, answer) => {
                named = text(&answer) == NAMED;
                required.extend(needs.lack("PING", &answer).filter(|_| !needs.scripts()));
            }
            // A server, or a proxy, without it still makes locks: waiters poll.
            (Step::Tracking, answer) => pushes = answer == Value::Okay,
            (Step::About, answer) => about.push_str(&text(&answer)),
            (Step::Id, Value::Int(own)) => id = Some(own),
            _ => {}
        }
    }
    // Before what it lacks: a Sentinel is not a server for data at all.
    let clustered = is_clustered(&about, endpoint)?;
    required.into_iter().next().map_or(Ok(()), Err)?;
    let (deletes_by, votes_in) = (needs.delete(&deletes, named)?, votes_in(&about, guard));
    let own = |name| field(&about, name).map(str::to_owned);
    let (run_id, eviction) = (own("run_id"), own("maxmemory_policy"));
    let login = endpoint.provider.clone().zip(granted);
    Ok(Greeting { talk, pushes, votes_in, run_id, clustered, eviction, id, login, deletes_by })
}

/// What an answer of the greeting is for.
enum Step {
    /// Nobody minds an error.
    Optional,
    /// Whether it is a primary, where one is wanted.
    Role,
    /// Without it there is no lock here.
    Required,
    /// Whether there is such a database.
    Database,
    /// Whether changes are pushed.
    Tracking,
    /// Whether the user may run this command.
    Right(&'static str),
    /// Whether it deletes in this way.
    Delete(Delete),
    /// Whether it says back what it is given.
    Named,
    /// What the server says about itself.
    About,
    /// The number by which the server knows the connection.
    Id,
}

/// What is asked once the login is over, each with what its refusal means.
fn steps(endpoint: &Endpoint, resp3: bool, needs: &Needs) -> Vec<(Step, Cmd)> {
    let mut steps = vec![(Step::Optional, named(endpoint))];
    // Since Redis 7.2, and no part of the name that users choose.
    for (what, value) in [("LIB-NAME", "redlock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
        let about_us = cmd("CLIENT").arg("SETINFO").arg(what).arg(value).clone();
        steps.push((Step::Optional, about_us));
    }
    if endpoint.db != 0 {
        steps.push((Step::Database, cmd("SELECT").arg(endpoint.db).clone()));
    }
    for section in ["server", "memory"] {
        steps.push((Step::About, about(section)));
    }
    if needs.scripts() {
        // Loaded each time: after this EVALSHA fails only if somebody flushes them.
        steps.extend(load_scripts().map(|load| (Step::Required, load)));
    }
    steps.extend(needs.trials().into_iter().map(|(name, try_it)| (Step::Right(name), try_it)));
    let deletes = needs.deletes();
    if !deletes.is_empty() {
        steps.push((Step::Named, cmd("PING").arg(NAMED).clone()));
    }
    steps.extend(deletes.into_iter().map(|(by, try_it)| (Step::Delete(by), try_it)));
    // After the trials, whose key the server need not remember.
    if resp3 {
        // OPTOUT: every key that is read is told of, unless CACHING NO goes before. NOLOOP: not what we changed
        // ourselves.
        let tracking = ["TRACKING", "ON", "OPTOUT", "NOLOOP"];
        steps.push((Step::Tracking, cmd("CLIENT").arg(&tracking).clone()));
    } else {
        steps.push((Step::Id, cmd("CLIENT").arg("ID").clone()));
    }
    steps
}

/// A fault unless the answer to `ROLE` is a primary's.
fn is_primary(role: &Value) -> Result<(), Fault> {
    match role {
        Value::Array(parts) if parts.first().is_some_and(|role| words(role) == "master") => Ok(()),
        Value::Array(parts) => {
            let role = parts.first().map(words).unwrap_or_default();
            Err(Fault::new("the sentinels name it as the primary, and its role is ")
                .saying(&role, ""))
        }
        Value::ServerError(error) => Err(refused(error)),
        other => Err(no_redis(other)),
    }
}

/// The fault of a server that refuses `SELECT`.
fn no_database(db: i64, error: &ServerError) -> Fault {
    let said = format!("{} {}", error.code(), error.details().unwrap_or_default());
    // Other errors with this code are those of a proxy whose server is away.
    let about_us =
        ["index", "select", "database"].iter().any(|word| said.to_lowercase().contains(word));
    if error.code() != "ERR" || !about_us {
        return refused(error);
    }
    let text = format!("database {db} cannot be selected; the server answered ");
    let hint = " (use a lower number, or raise `databases` in the server's configuration)";
    Fault::new(text).saying(&said, hint).refused()
}

/// Whether the server is one of a cluster, where it says so. A Sentinel, whose port is in a URL for servers, is an error.
fn is_clustered(about: &str, endpoint: &Endpoint) -> Result<Option<bool>, Fault> {
    // Valkey has another name for the field.
    match field(about, "redis_mode").or_else(|| field(about, "server_mode")) {
        Some("sentinel") => {
            let scheme = if endpoint.is_tls() { "rediss" } else { "redis" };
            Err(Fault::invalid(format!(
                "it is a Redis Sentinel, which keeps no data: use {scheme}+sentinel://host:port/service"
            )))
        }
        mode => Ok(mode.map(|mode| mode == "cluster")),
    }
}

/// Asks what the server says about itself.
pub(super) fn about(section: &str) -> Cmd {
    cmd("INFO").arg(section).clone()
}

/// Gives the server the scripts, which it may have forgotten.
pub(super) fn load_scripts() -> impl Iterator<Item = Cmd> {
    scripts().iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}

/// How long a node must still wait before it may vote: uptime is told in whole seconds, rounded down. `None` where
/// it cannot be read, as that of a server whose clock went back behind its start.
pub(super) fn votes_in(about: &str, guard: Duration) -> Option<Duration> {
    let uptime = Duration::from_secs(field(about, "uptime_in_seconds")?.parse().ok()?);
    // The second that may be missing from the uptime.
    Some((guard_time(guard) + Duration::from_secs(1)).saturating_sub(uptime))
}

/// How long a server that may have forgotten something just now takes no first vote.
pub(super) fn guard_time(guard: Duration) -> Duration {
    // Leases of `guard` by clocks that run up to 1 % slower than ours: what the drift of a lease allows for.
    guard.mul_f64(1.01)
}

/// What the server said about itself; nothing if it did not.
pub(super) fn text(info: &Value) -> String {
    match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

/// What a section of `INFO` says of this.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}
