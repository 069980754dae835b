//! What the doctor knows about the servers.
//!
//! Questions go over separate connections, so that a server that cannot be used for locks replies too.

use std::collections::HashMap;
use std::time::Duration;

use redlock::ffi::{NodeReplies, ServerReplies, applied, ask_servers};
use redlock::{NodePing, Redlock, Result};

use super::live::Trial;
use super::rights::{Need, RIGHTS, Right};

/// The settings of a server that matter for locks.
const SETTINGS: [&str; 4] = ["appendfsync", "save", "timeout", "tcp-keepalive"];
/// How often to measure the latency after the first reply.
const MEASUREMENTS: usize = 3;

/// The options that decide what matters.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) ttl: Duration,
    pub(super) node_timeout: Duration,
    /// How long a node may take to reply for the first time.
    pub(super) patience: Duration,
    pub(super) guard: Duration,
    pub(super) min_replicas: u32,
    pub(super) fsync: bool,
    pub(super) key_prefix: String,
}

/// All facts about the nodes of a client.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) settings: Settings,
    /// The time until a quorum grants a lock. `None` if too few nodes replied.
    pub(super) ready_in: Option<Duration>,
    pub(super) nodes: Vec<NodeFacts>,
    /// The trial over all nodes, if a quorum is ready.
    pub(super) trial: Option<Trial>,
}

#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    pub(super) url: String,
    /// The user of the URL.
    pub(super) user: String,
    /// The shortest time of a reply. `None` if the node would grant no lock.
    pub(super) latency: Option<Duration>,
    /// The time until it grants locks, because of the guard.
    pub(super) ready_in: Option<Duration>,
    /// Why it would grant no lock.
    pub(super) error: Option<String>,
    pub(super) servers: std::result::Result<Vec<ServerFacts>, String>,
    /// The trial with this node alone, if it is ready.
    pub(super) trial: Option<Trial>,
}

impl NodeFacts {
    /// Its servers, if they replied.
    pub(super) fn known_servers(&self) -> &[ServerFacts] {
        self.servers.as_ref().map_or(&[], Vec::as_slice)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct ServerFacts {
    pub(super) address: String,
    pub(super) resp3: bool,
    /// The fields of `INFO`. Empty if it is refused.
    pub(super) info: HashMap<String, String>,
    /// Those settings that the server shows.
    pub(super) config: HashMap<&'static str, String>,
    pub(super) denied: Vec<&'static Right>,
    /// Commands that the server, or a proxy, does not know.
    pub(super) unknown: Vec<&'static str>,
    /// Why it does not track keys, although its user may use that.
    pub(super) untracked: Option<String>,
    /// Whether it runs a script for so long that it refuses other commands.
    pub(super) is_busy: bool,
    /// How far its clock is ahead of that of this machine, in seconds.
    pub(super) ahead: Option<f64>,
    /// The run ID over another connection.
    pub(super) other_run_id: Option<String>,
}

impl ServerFacts {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

/// What a command is for.
#[derive(Clone, Copy)]
enum Purpose {
    Info,
    Setting(&'static str),
    Right(&'static Right),
}

/// The questions for each server.
fn questions(prefix: &str, name: &str) -> Vec<(Purpose, Vec<String>)> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut questions = vec![(Purpose::Info, words("INFO"))];
    for setting in SETTINGS {
        questions.push((Purpose::Setting(setting), words(&format!("CONFIG GET {setting}"))));
    }
    for right in &RIGHTS {
        questions.push((Purpose::Right(right), right.command(prefix, name)));
    }
    questions
}

/// Asks all servers.
pub(super) async fn gather(
    client: &Redlock,
    urls: &[String],
    name: &str,
    settings: Settings,
) -> Result<Facts> {
    let ping = client.ping(settings.patience).await?;
    let mut latencies: Vec<_> = ping.nodes.iter().map(|_| None).collect();
    if ping.nodes.iter().any(|node| node.latency.is_some()) {
        for _ in 0..MEASUREMENTS {
            let again = client.ping(settings.node_timeout).await?;
            for (latency, node) in latencies.iter_mut().zip(&again.nodes) {
                *latency = [*latency, node.latency].into_iter().flatten().min();
            }
        }
    }
    let (purposes, commands): (Vec<_>, Vec<_>) =
        questions(&settings.key_prefix, name).into_iter().unzip();
    let again = ask_servers(client, vec![vec!["INFO".to_owned(), "server".to_owned()]]);
    let (replies, again) = tokio::join!(ask_servers(client, commands), again);
    let (replies, again) = (replies?, again?);
    let nodes = replies.into_iter().zip(&again).zip(ping.nodes).zip(latencies).zip(urls);
    let nodes = nodes.map(|((((replies, again), ping), latency), url)| {
        let found = Gathered { replies, again, ping, latency, url };
        node_facts(&purposes, found)
    });
    let nodes = nodes.collect();
    Ok(Facts { settings, ready_in: ping.ready_in, nodes, trial: None })
}

/// What was asked of one node.
struct Gathered<'a> {
    replies: NodeReplies,
    /// The run IDs of its servers a moment later.
    again: &'a NodeReplies,
    ping: NodePing,
    /// The smallest of several measurements.
    latency: Option<Duration>,
    url: &'a str,
}

fn node_facts(purposes: &[Purpose], found: Gathered<'_>) -> NodeFacts {
    let Gathered { replies, again, ping, latency, url } = found;
    let other_ids: Vec<_> =
        again.servers.iter().flatten().map(|server| run_id(&server.replies)).collect();
    let servers = replies.servers.map(|servers| {
        let servers = servers.into_iter().enumerate();
        let facts = servers.map(|(at, server)| {
            let other_run_id = other_ids.get(at).cloned().flatten();
            ServerFacts { other_run_id, ..server_facts(purposes, server) }
        });
        facts.collect()
    });
    NodeFacts {
        url: ping.url,
        user: user_of(url),
        latency: ping.latency.map(|first| latency.unwrap_or(first)),
        ready_in: ping.ready_in,
        error: ping.error,
        servers,
        trial: None,
    }
}

fn run_id(replies: &[std::result::Result<Vec<String>, String>]) -> Option<String> {
    fields(replies.first()?.as_ref().ok()?).remove("run_id")
}

/// The fields of `INFO`.
fn fields(reply: &[String]) -> HashMap<String, String> {
    let lines = reply.iter().flat_map(|text| text.lines());
    let fields = lines.filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

fn server_facts(purposes: &[Purpose], server: ServerReplies) -> ServerFacts {
    let mut facts =
        ServerFacts { address: server.address, resp3: server.resp3, ..ServerFacts::default() };
    for (purpose, reply) in purposes.iter().zip(server.replies) {
        match (purpose, reply) {
            (Purpose::Info, Ok(text)) => facts.info = fields(&text),
            (Purpose::Setting(name), Ok(values)) => {
                // A pair, or nothing.
                if let [_, value] = &values[..] {
                    facts.config.insert(name, value.clone());
                }
            }
            (Purpose::Info | Purpose::Setting(_), Err(error)) => facts.is_busy |= is_busy(&error),
            (Purpose::Right(right), reply) => note_right(&mut facts, right, &reply, server.arrived),
        }
    }
    facts
}

fn note_right(
    facts: &mut ServerFacts,
    right: &'static Right,
    reply: &std::result::Result<Vec<String>, String>,
    arrived: u64,
) {
    match reply {
        Ok(values) if right.rule == "+time" => facts.ahead = ahead(values, arrived),
        Ok(_) => {}
        Err(error) if right.is_denied(error) => {
            if facts.denied.iter().all(|denied| denied.rule != right.rule) {
                facts.denied.push(right);
            }
        }
        Err(error) => {
            if error.to_lowercase().contains("unknown command") {
                facts.unknown.push(right.rule);
            }
            // That says nothing about tracking.
            if right.need == Need::Notifications && !is_busy(error) {
                facts.untracked.get_or_insert_with(|| error.clone());
            }
        }
    }
}

fn is_busy(error: &str) -> bool {
    error.starts_with("BUSY ")
}

/// The difference in seconds between the reply to `TIME` and the clock of this machine when the reply `arrived`.
/// Servers may reply seconds apart.
fn ahead(values: &[String], arrived: u64) -> Option<f64> {
    let [seconds, micros] = values else { return None };
    let time = seconds.parse::<f64>().ok()? + micros.parse::<f64>().ok()? / 1e6;
    Some(time - Duration::from_micros(arrived).as_secs_f64())
}

/// The user that a URL names.
fn user_of(url: &str) -> String {
    let login = url.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    let user = login.map_or("", |(login, _)| login.split(':').next().unwrap_or_default());
    if user.is_empty() { "default".to_owned() } else { user.to_owned() }
}

/// The settings of a client, also those in its URLs.
pub(super) fn settings(client: &Redlock, ttl: Duration) -> Settings {
    let applied = applied(&client.lock("doctor").ttl(ttl));
    Settings {
        ttl,
        node_timeout: applied.node_timeout,
        patience: applied.connect_timeout + Duration::from_millis(500),
        guard: applied.restart_guard,
        min_replicas: applied.min_replicas,
        fsync: applied.fsync,
        key_prefix: applied.key_prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The doctor computed defaults itself, and did not look into URLs.
    #[tokio::test]
    async fn settings_are_those_of_the_client() {
        let url = "redis://127.0.0.1:1?socket_timeout=0.2&socket_connect_timeout=1";
        let client = Redlock::builder([url]).build().unwrap();
        let times = |client: &Redlock, ttl: u64| {
            let found = settings(client, Duration::from_secs(ttl));
            (found.node_timeout.as_millis(), found.patience.as_millis())
        };
        assert_eq!(times(&client, 10), (200, 1500));
        let client = Redlock::builder(["redis://127.0.0.1:1"]).fsync(true).build().unwrap();
        assert_eq!((times(&client, 6), times(&client, 12)), ((2000, 5500), (3000, 5500)));
    }

    /// One of them was slow to connect to.
    #[test]
    fn clock_is_compared_when_its_reply_arrives() {
        let questions = questions("lock:", "job");
        let (purposes, commands): (Vec<_>, Vec<_>) = questions.into_iter().unzip();
        let ahead = |time: u64, arrived: u64| {
            let reply = |command: &Vec<String>| match &command[..] {
                [name] if name == "TIME" => Ok(vec![time.to_string(), "500000".to_owned()]),
                _ => Err("ERR".to_owned()),
            };
            let replies = commands.iter().map(reply).collect();
            let arrived = arrived * 1_000_000 + 500_000;
            let server = ServerReplies { address: String::new(), resp3: true, arrived, replies };
            server_facts(&purposes, server).ahead
        };
        assert_eq!(ahead(1000, 1000), Some(0.0));
        assert_eq!(ahead(1004, 1004), Some(0.0));
        assert_eq!(ahead(1004, 1000), Some(4.0));
    }

    /// Each command is refused then, so that says nothing about tracking.
    #[test]
    fn busy_server_is_not_one_without_tracking() {
        let (purposes, commands): (Vec<_>, Vec<_>) = questions("lock:", "job").into_iter().unzip();
        let untracked = |error: &str| {
            let replies = commands.iter().map(|_| Err(error.to_owned())).collect();
            let server = ServerReplies { address: String::new(), resp3: true, arrived: 0, replies };
            let facts = server_facts(&purposes, server);
            (facts.untracked.is_some(), facts.is_busy)
        };
        assert_eq!(untracked("BUSY Redis is busy running a script"), (false, true));
        assert_eq!(untracked("ERR unknown command"), (true, false));
    }
}
