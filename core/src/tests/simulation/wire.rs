//! The commands of a server about its connections, and the way of a command to the keys.

use std::time::Duration;

use super::clock::Time;
use super::commands::{Call, int, keys, writes};
use super::net::Remote;
use super::resp::Reply;
use super::scripts;
use super::server::Peer;
use super::world::{MS, World};

/// What a server knows about one of its connections.
#[derive(Clone, Default)]
pub(super) struct Session {
    pub(super) resp3: bool,
    /// Whether it is notified of changes, and the connection that gets the notifications instead.
    tracking: Option<Option<usize>>,
    /// The next command is not tracked, or is for a key that is being migrated to the server.
    untracked: bool,
    asking: bool,
    pub(super) subscribed: bool,
    /// When its login ends.
    pub(super) login_until: Time,
}

/// An administrator empties the script cache with one of this number of commands.
const SCRIPT_FLUSH: u16 = 300;
/// A client that deletes one token more often than this within 100 ms breaks a promise.
const STORM: u32 = 50;

fn peer(client: usize, conn: usize) -> Peer {
    (client, u32::try_from(conn).unwrap())
}

impl World {
    /// Runs a request. Returns `None` if the reply follows later.
    pub(super) fn execute(&mut self, conn: usize, words: &[&str]) -> Option<Reply> {
        let client = self.conns[conn].client;
        let (place, incarnation) = match self.conns[conn].remote {
            Remote::Sentinel { node, index } => return self.sentinel(conn, (node, index), words),
            Remote::Server { place, incarnation } => (place, incarnation),
        };
        let refused = match words {
            ["HELLO", ..] => self.log_in(conn, place, words),
            _ => None,
        };
        let is_login = matches!(words, ["HELLO", _, "AUTH", ..] | ["AUTH", ..]);
        let refused = refused.or_else(|| if is_login { None } else { self.not_logged_in(conn) });
        let reply = match words {
            _ if refused.is_some() => refused,
            ["WAIT", replicas, time] => {
                let (replicas, time) = (int(replicas), Duration::from_millis(int(time)));
                self.wait(peer(client, conn), (place, incarnation), (replicas, time));
                None
            }
            ["CLIENT", rest @ ..] => Some(self.client_command(conn, place, rest)),
            ["AUTH", ..] => Some(self.log_in(conn, place, words).unwrap_or(Reply::Status("OK"))),
            _ if keys(words).is_empty() && self.refused(place, words).is_some() => {
                self.refused(place, words)
            }
            _ => Some(self.command(conn, (place, incarnation), words)),
        };
        self.log(|| {
            let reply = reply.as_ref().map_or("later".to_owned(), brief_reply);
            format!("node {place} <- {conn} of client {client}: {} -> {reply}", brief(words))
        });
        reply
    }

    fn client_command(&mut self, conn: usize, place: usize, words: &[&str]) -> Reply {
        match words {
            ["ID"] => Reply::Int(i64::try_from(conn).unwrap()),
            ["KILL", "ID", _] if !self.kills => Reply::error(
                "NOPERM User default has no permissions to run the 'client|kill' command",
            ),
            ["KILL", "ID", id] => {
                let id = int(id) as usize;
                let killed = self.conns.get(id).is_some_and(|one| {
                    one.alive && one.remote == self.conns[conn].remote && id != conn
                });
                if killed {
                    self.close(id);
                }
                Reply::Int(killed.into())
            }
            ["TRACKING", "ON", "REDIRECT", id, ..] => {
                let id = int(id) as usize;
                if !self.conns.get(id).is_some_and(|one| one.alive) {
                    return Reply::error("ERR The client ID you want redirect to does not exist");
                }
                self.conns[conn].state.tracking = Some(Some(id));
                self.connected(conn, id, place);
                Reply::Status("OK")
            }
            ["TRACKING", "ON", ..] => {
                self.conns[conn].state.tracking = Some(None);
                self.connected(conn, conn, place);
                Reply::Status("OK")
            }
            ["CACHING", "NO"] => {
                self.conns[conn].state.untracked = true;
                Reply::Status("OK")
            }
            _ => Reply::Status("OK"),
        }
    }

    fn command(&mut self, conn: usize, at: (usize, u32), words: &[&str]) -> Reply {
        let (place, incarnation) = at;
        let state = &mut self.conns[conn].state;
        let untracked = std::mem::take(&mut state.untracked);
        let asking = std::mem::take(&mut state.asking);
        match words {
            ["HELLO", "3", ..] => {
                state.resp3 = true;
                self.hello(conn, at)
            }
            ["ASKING"] => {
                state.asking = true;
                Reply::Status("OK")
            }
            ["INFO", "server"] => self.info(at),
            ["INFO", ..] => Reply::bulk("# Memory\r\nmaxmemory_policy:noeviction\r\n"),
            ["ROLE"] => Reply::List(vec![Reply::bulk(self.role(at)), Reply::Int(0)]),
            ["PING"] => Reply::Status("PONG"),
            ["CLUSTER", "SLOTS"] => self.cluster_slots(place),
            ["CLUSTER", "NODES"] => self.cluster_nodes(place),
            _ if writes(words) && self.role(at) != "master" => {
                Reply::error("READONLY You can't write against a read only replica.")
            }
            _ => match self.fault(conn, place, words, asking) {
                Some(error) => error,
                None => self.on_keys(conn, (place, incarnation), untracked, words),
            },
        }
    }

    /// The error of a server that does not run the command.
    fn fault(&mut self, conn: usize, place: usize, words: &[&str], asking: bool) -> Option<Reply> {
        let client = self.conns[conn].client;
        if let ["EVALSHA", digest, count, rest @ ..] = words
            && scripts::deletes(digest)
        {
            let tokens = &rest[int(count) as usize..];
            tokens.iter().for_each(|token| self.deletes(client, token));
        }
        if self.faults && self.rng.u16(..SCRIPT_FLUSH) == 0 {
            self.servers[place].scripts = false;
        }
        let (now, keys) = (self.now, keys(words));
        if self.shards > 1
            && let Some(redirect) = self.servers[place].redirect(keys, asking, now)
        {
            return Some(Reply::error(redirect.text(crate::node::slot(keys[0]))));
        }
        self.refused(place, words)
    }

    /// Counts a delete. One that is sent again and again breaks a promise.
    fn deletes(&mut self, client: usize, token: &str) {
        let lately = self.deletes.entry((client, token.into())).or_default();
        let soon = self.now < lately.0 + 100 * MS;
        *lately = if soon { (lately.0, lately.1 + 1) } else { (self.now, 1) };
        self.storm |= lately.1 > STORM;
    }

    fn on_keys(
        &mut self,
        conn: usize,
        (place, incarnation): (usize, u32),
        untracked: bool,
        words: &[&str],
    ) -> Reply {
        let (now, one) = (self.now, &self.conns[conn]);
        let tracks = one.state.tracking.is_some() && !untracked;
        let peer = peer(one.client, conn);
        let server = self.server_at(place, incarnation).expect("the connection is alive");
        let mut call = Call { server, peer, tracks, now, pushes: Vec::new() };
        let reply = call.run(words).unwrap_or(Reply::Status("OK"));
        let pushes = call.pushes;
        self.send_pushes(place, pushes);
        if let (Reply::Error(error), ["EVALSHA", digest, count, rest @ ..]) = (&reply, words)
            && error.starts_with("NOSCRIPT")
            && scripts::deletes(digest)
        {
            self.unknown_delete(place, &rest[int(count) as usize..]);
        }
        reply
    }

    /// Notifies the connections that track these keys, and sends the write to the server's replicas.
    pub(super) fn send_pushes(&mut self, place: usize, pushes: Vec<(Peer, String)>) {
        self.replicate(place);
        for ((_, conn), key) in pushes {
            let conn = conn as usize;
            let to = self.conns[conn].state.tracking.flatten().unwrap_or(conn);
            if self.conns[to].alive {
                let keys = Reply::List(vec![Reply::bulk(key)]);
                self.push(to, &Reply::Push(vec![Reply::bulk("invalidate"), keys]));
            } else {
                let (what, id) = ("tracking-redir-broken", i64::try_from(to).unwrap());
                self.push(conn, &Reply::Push(vec![Reply::bulk(what), Reply::Int(id)]));
            }
        }
    }

    fn role(&mut self, (place, incarnation): (usize, u32)) -> &'static str {
        if self.server_of(place, incarnation).is_some() { "master" } else { "slave" }
    }

    fn hello(&mut self, conn: usize, at: (usize, u32)) -> Reply {
        let role = if self.role(at) == "master" { "master" } else { "replica" };
        let mode = if self.shards > 1 { "cluster" } else { "standalone" };
        Reply::Map(vec![
            ("server", Reply::bulk("redis")),
            ("version", Reply::bulk("7.0.0")),
            ("proto", Reply::Int(3)),
            ("id", Reply::Int(i64::try_from(conn).unwrap())),
            ("mode", Reply::bulk(mode)),
            ("role", Reply::bulk(role)),
            ("modules", Reply::List(Vec::new())),
        ])
    }

    fn info(&mut self, (place, incarnation): (usize, u32)) -> Reply {
        let (now, shards) = (self.now, self.shards);
        let mode = if shards > 1 { "cluster" } else { "standalone" };
        let server = self.server_at(place, incarnation).expect("the connection is alive");
        let uptime = server.uptime_seconds(now);
        Reply::bulk(format!(
            "# Server\r\nredis_mode:{mode}\r\nrun_id:run-{place}-{incarnation}\r\n\
             uptime_in_seconds:{uptime}\r\n"
        ))
    }
}

/// A command as text, with the beginnings of tokens.
fn brief(words: &[&str]) -> String {
    let known = |digest: &str| crate::node::scripts().iter().position(|one| one.digest == digest);
    match words {
        [name, key, ..] if key.starts_with("redlock-rights") => (*name).to_owned(),
        ["EVALSHA", digest, ..] => match keys(words) {
            [key] if key.starts_with("redlock-rights") => "EVALSHA".to_owned(),
            keys => {
                let rest = words[3 + keys.len()..].iter().map(|word| &word[..word.len().min(10)]);
                let rest: Vec<_> = rest.collect();
                format!("script {:?} {keys:?} {rest:?}", known(digest))
            }
        },
        ["EVAL", ..] if keys(words).iter().any(|key| key.starts_with("redlock-rights")) => {
            "EVAL".to_owned()
        }
        ["SCRIPT", what, ..] => format!("SCRIPT {what}"),
        ["SET", key, _, rest @ ..] => format!("SET {key} {rest:?}"),
        words => words.join(" "),
    }
}

fn brief_reply(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => text.chars().take(10).collect(),
        Reply::List(parts) => format!("{:?}", parts.iter().map(brief_reply).collect::<Vec<_>>()),
        Reply::Map(_) => "map".to_owned(),
        // The slot in a redirect may be that of a random key.
        Reply::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
        reply => format!("{reply:?}"),
    }
}
