//! Opening a connection: who we are, which protocol, how old the server is, and our scripts.
//!
//! Everything that a lock relies on is asked here, once, and pipelined: a server that lacks something is told
//! of now, not at the first lock. What becomes of the connection afterwards is the session's.

use std::time::Duration;

use redis::{Cmd, ServerError, Value, cmd};

use super::endpoint::Endpoint;
use super::fallback::{Without, connect};
use super::login::{no_redis, refused};
use super::native::Delete;
use super::refusal::{has_code, is_unsupported, words};
use super::rights::Needs;
use super::steps::{NAMED, Step, steps};
use super::talk::Talk;
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
    /// What is not supported on the way to the server.
    pub(super) without: Without,
}

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

/// Connects and asks what locks rely on. A server that hangs up at these questions twice is asked only what locks cannot do
/// without.
async fn ask_all(endpoint: &Endpoint, primary: bool, needs: &Needs) -> Result<Asked, Fault> {
    let (mut without, mut hung_up) = (Without::default(), false);
    loop {
        let (mut talk, hello) = connect(endpoint, &mut without).await?;
        let mut steps = steps(endpoint, hello.is_some(), needs, without.extras);
        if primary {
            // First: what a replica says to the rest is beside the point.
            steps.insert(0, (Step::Role, cmd("ROLE")));
        }
        let commands: Vec<Cmd> = steps.iter().map(|(_, command)| command.clone()).collect();
        match talk.ask(&commands).await {
            Ok(answers) => {
                let answers = steps.into_iter().map(|(step, _)| step).zip(answers).collect();
                return Ok(Asked { talk, hello, answers, without });
            }
            Err(_) if talk.hung_up && !without.extras => {
                without.extras = hung_up;
                hung_up = true;
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// What a server replied to the questions at connect.
struct Asked {
    talk: Talk,
    hello: Option<Option<i64>>,
    answers: Vec<(Step, Value)>,
    without: Without,
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
    let Asked { mut talk, hello, answers, mut without } = ask_all(endpoint, primary, needs).await?;
    let mut found = Found { id: hello.flatten(), ..Found::default() };
    for (step, answer) in answers {
        found.note(endpoint, needs, step, answer)?;
    }
    without.digests = without.extras;
    if let (Some(fault), true) = (found.no_digests.take(), found.lacking.is_empty()) {
        let answer = talk.ask(&[needs.eval()]).await?.remove(0);
        found.lacking.extend(needs.lack_eval(&answer, fault));
        without.digests = true;
    }
    without.tracking = !found.pushes;
    // Before what it lacks: a Sentinel is not a server for data at all.
    let clustered = is_clustered(&found.about, endpoint)?;
    found.lacking.into_iter().next().map_or(Ok(()), Err)?;
    let (about, id, pushes) = (found.about, found.id, found.pushes);
    let own = |name| field(&about, name).map(str::to_owned);
    Ok(Greeting {
        talk,
        pushes,
        votes_in: votes_in(&about, guard),
        run_id: own("run_id"),
        clustered,
        eviction: own("maxmemory_policy"),
        id,
        login: endpoint.provider.clone().zip(granted),
        deletes_by: needs.delete(&found.deletes, found.named)?,
        without,
    })
}

/// What the replies at connect say.
#[derive(Default)]
struct Found {
    pushes: bool,
    about: String,
    id: Option<i64>,
    deletes: Vec<(Delete, Value)>,
    /// `PING` says back what it is given.
    named: bool,
    /// What locks cannot do without.
    lacking: Vec<Fault>,
    /// Why scripts have to go out in full.
    no_digests: Option<Fault>,
}

impl Found {
    /// The reply to a step. `Err`: the server is not the one that is wanted.
    fn note(
        &mut self,
        endpoint: &Endpoint,
        needs: &Needs,
        step: Step,
        answer: Value,
    ) -> Result<(), Fault> {
        match (step, answer) {
            (Step::Role, role) => is_primary(&role)?,
            (Step::Script, Value::ServerError(error)) if has_code(&error) => {
                self.lacking.push(refused(&error));
            }
            // The first one, which is about `SCRIPT LOAD`, says more than those that follow.
            (Step::Script, Value::ServerError(error)) => {
                self.no_digests.get_or_insert_with(|| refused(&error));
            }
            (Step::Right("EVALSHA"), answer) if is_unsupported(&answer) => {
                self.no_digests = self.no_digests.take().or(needs.lack("EVALSHA", &answer));
            }
            (Step::Database, Value::ServerError(error)) => {
                self.lacking.push(no_database(endpoint.db, &error));
            }
            (Step::Right(name), answer) => self.lacking.extend(needs.lack(name, &answer)),
            (Step::Delete(by), answer) => self.deletes.push((by, answer)),
            (Step::Named, answer) => {
                self.named = text(&answer) == NAMED;
                self.lacking.extend(needs.lack("PING", &answer).filter(|_| !needs.scripts()));
            }
            // A server, or a proxy, without it still makes locks: waiters poll.
            (Step::Tracking, answer) => self.pushes = answer == Value::Okay,
            (Step::About, answer) => self.about.push_str(&text(&answer)),
            (Step::Id, Value::Int(own)) => self.id = Some(own),
            _ => {}
        }
        Ok(())
    }
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
