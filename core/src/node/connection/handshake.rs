//! Opening a connection: who we are, which protocol, how old the server is, and our scripts.

use std::time::Duration;

use bytes::BytesMut;
use redis::{Cmd, ServerError, Value, ValueCodec, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Decoder;

use super::super::Fault;
use super::super::address::Server;
use super::super::reply;
use super::super::script::SCRIPTS;
use super::rights;
use super::stream::Stream;

/// A name that cannot be resolved or a host that drops packets would hold a connection attempt much longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// An answer of more bytes than this is no greeting; no memory is spent on the rest of it.
const LARGEST: usize = 64 << 10;

/// A connection that is ready for locks.
pub(super) struct Greeting {
    pub(super) talk: Talk,
    pub(super) pushes: bool,
    /// How long the server may not take first votes; `None`: its age cannot be read.
    pub(super) votes_after: Option<Duration>,
    /// Which run of which server it is, where it says so.
    pub(super) run_id: Option<String>,
    /// What it does when its memory is full, where it says so.
    pub(super) eviction: Option<String>,
    /// What the server calls this connection, where it says so.
    id: Option<i64>,
}

/// A connection that ended broken: what was sent over it may still arrive, unless its server ends it first.
#[derive(Clone)]
pub(super) struct Former {
    run_id: Option<String>,
    id: Option<i64>,
}

impl Greeting {
    pub(super) fn as_former(&self) -> Former {
        Former { run_id: self.run_id.clone(), id: self.id }
    }

    /// Ends an earlier connection; true if nothing of it can arrive any more.
    pub(super) async fn kill(&mut self, former: &Former) -> Result<bool, Fault> {
        let (Some(was), Some(is)) = (&former.run_id, &self.run_id) else { return Ok(false) };
        if was != is {
            // Another run of the server never knew it, and would end a stranger's.
            return Ok(true);
        }
        let Some(id) = former.id else { return Ok(false) };
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        match tokio::time::timeout(TIMEOUT, self.talk.ask(&[kill])).await {
            Ok(answers) => Ok(matches!(answers?[..], [Value::Int(_)])),
            Err(_) => Err(too_long()),
        }
    }
}

fn too_long() -> Fault {
    Fault::new(format!("no connection within {} s", TIMEOUT.as_secs()))
}

pub(super) async fn open(
    server: &Server,
    guard: Duration,
    key_prefix: &str,
) -> Result<Greeting, Fault> {
    match tokio::time::timeout(TIMEOUT, greet(server, guard, key_prefix)).await {
        Ok(greeted) => greeted.map_err(|fault| fault.hushed(server)),
        Err(_) => Err(too_long()),
    }
}

async fn greet(server: &Server, guard: Duration, key_prefix: &str) -> Result<Greeting, Fault> {
    let stream = Stream::connect(server)
        .await
        .map_err(|error| Fault::new("cannot connect: ").saying(&error.to_string(), ""))?;
    let mut talk = Talk { stream, codec: ValueCodec::default(), unread: BytesMut::new() };
    let hello = log_in(&mut talk, server).await?;
    let steps = steps(server, hello.is_some(), key_prefix);
    let commands: Vec<Cmd> = steps.iter().map(|(_, command)| command.clone()).collect();
    let (mut pushes, mut about, mut id) = (false, String::new(), hello.flatten());
    for ((step, _), answer) in steps.iter().zip(talk.ask(&commands).await?) {
        match (step, answer) {
            (Step::Required, Value::ServerError(error)) => return Err(refused(&error)),
            (Step::Right(name), answer) => {
                rights::denied(name, &answer).map_or(Ok(()), Err)?;
            }
            (Step::Tracking, answer) => pushes = answer == Value::Okay,
            (Step::About, answer) => about.push_str(&text(&answer)),
            (Step::Id, Value::Int(own)) => id = Some(own),
            _ => {}
        }
    }
    let votes_after = votes_after(&about, guard);
    let own = |name| field(&about, name).map(str::to_owned);
    let (run_id, eviction) = (own("run_id"), own("maxmemory_policy"));
    Ok(Greeting { talk, pushes, votes_after, run_id, eviction, id })
}

enum Step {
    Optional,
    Required,
    Tracking,
    Right(&'static str),
    About,
    Id,
}

fn steps(server: &Server, resp3: bool, key_prefix: &str) -> Vec<(Step, Cmd)> {
    let mut steps = vec![(Step::Optional, cmd("CLIENT").arg("SETNAME").arg("redlock").clone())];
    if server.db != 0 {
        steps.push((Step::Required, cmd("SELECT").arg(server.db).clone()));
    }
    for section in ["server", "memory"] {
        steps.push((Step::About, about(section)));
    }
    steps.extend(load_scripts().map(|load| (Step::Required, load)));
    steps.extend(
        rights::trials(key_prefix).into_iter().map(|(name, try_it)| (Step::Right(name), try_it)),
    );
    // After the trials, whose key the server need not remember.
    if resp3 {
        let tracking = ["TRACKING", "ON", "OPTOUT", "NOLOOP"];
        steps.push((Step::Tracking, cmd("CLIENT").arg(&tracking).clone()));
    } else {
        steps.push((Step::Id, cmd("CLIENT").arg("ID").clone()));
    }
    steps
}

pub(super) fn about(section: &str) -> Cmd {
    cmd("INFO").arg(section).clone()
}

/// With RESP3, our own id if the server says it; servers that do not know it are spoken to in RESP2, without pushes.
async fn log_in(talk: &mut Talk, server: &Server) -> Result<Option<Option<i64>>, Fault> {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = &server.password {
        hello.arg("AUTH").arg(server.username.as_deref().unwrap_or("default")).arg(password);
    }
    match talk.ask(&[hello]).await?.remove(0) {
        Value::Map(words) => return Ok(Some(own_id(&words))),
        Value::Array(_) => return Ok(Some(None)),
        Value::ServerError(error) => {
            let unknown = error.details().unwrap_or_default().contains("unknown command");
            if !unknown && error.code() != "NOPROTO" {
                return Err(refused(&error));
            }
        }
        other => return Err(no_redis(&other)),
    }
    let Some(password) = &server.password else {
        return Ok(None);
    };
    let mut auth = cmd("AUTH");
    if let Some(username) = &server.username {
        auth.arg(username);
    }
    auth.arg(password);
    match talk.ask(&[auth]).await?.remove(0) {
        Value::Okay => Ok(None),
        Value::ServerError(error) => Err(refused(&error)),
        other => Err(no_redis(&other)),
    }
}

fn own_id(words: &[(Value, Value)]) -> Option<i64> {
    words.iter().find_map(|(word, value)| match (word, value) {
        (Value::BulkString(word), Value::Int(id)) if word == b"id" => Some(*id),
        (Value::SimpleString(word), Value::Int(id)) if word == "id" => Some(*id),
        _ => None,
    })
}

fn refused(error: &ServerError) -> Fault {
    reply::refusal(&format!("{} {}", error.code(), error.details().unwrap_or_default()))
}

fn no_redis(value: &Value) -> Fault {
    let said = reply::words(value);
    Fault::new("the greeting was answered by ").saying(&said, ": is it a Redis server?")
}

pub(super) fn load_scripts() -> impl Iterator<Item = Cmd> {
    SCRIPTS.iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(&script.text).clone())
}

/// How long a node must still wait before it may vote: uptime is told in whole seconds, rounded down. `None` where
/// it cannot be read, as that of a server whose clock went back behind its start.
pub(super) fn votes_after(about: &str, guard: Duration) -> Option<Duration> {
    let uptime = Duration::from_secs(field(about, "uptime_in_seconds")?.parse().ok()?);
    Some((new_guard(guard) + Duration::from_secs(1)).saturating_sub(uptime))
}

/// How long a server that may have forgotten something just now takes no first vote.
pub(super) fn new_guard(guard: Duration) -> Duration {
    guard.mul_f64(1.01)
}

pub(super) fn text(info: &Value) -> String {
    match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}

pub(super) struct Talk {
    pub(super) stream: Stream,
    pub(super) codec: ValueCodec,
    pub(super) unread: BytesMut,
}

impl Talk {
    /// Sends all commands at once; one answer each, pushes left out.
    async fn ask(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, Fault> {
        let bytes: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        self.stream.write_all(&bytes).await.map_err(broken)?;
        // TLS may have taken bytes that it has not written yet.
        self.stream.flush().await.map_err(broken)?;
        let mut answers = Vec::with_capacity(commands.len());
        // Bytes read since the last whole answer: the codec may have taken them already.
        let mut partial = 0;
        while answers.len() < commands.len() {
            match self.codec.decode(&mut self.unread) {
                Ok(Some(Value::Push { .. })) => {}
                Ok(Some(value)) => {
                    answers.push(value);
                    partial = self.unread.len();
                }
                Ok(None) if partial > LARGEST => {
                    return Err(Fault::new("the greeting was answered by too much"));
                }
                Ok(None) => {
                    let read = self.stream.read_buf(&mut self.unread).await.map_err(broken)?;
                    if read == 0 {
                        return Err(Fault::new(
                            "the server closed the connection during the greeting",
                        ));
                    }
                    partial += read;
                }
                Err(_) => {
                    return Err(Fault::new("the greeting was not answered in Redis' protocol"));
                }
            }
        }
        Ok(answers)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn broken(error: std::io::Error) -> Fault {
    Fault::new(format!("the connection broke: {error}"))
}
