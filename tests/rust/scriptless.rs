//! A server for tests that forbids scripts and supports the conditional delete of Valkey 9, of Redis 8.4, or
//! none.
//!
//! It stores strings with their TTLs and runs transactions. It can lose one of its replies.

use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::fake::command;

/// Which conditional delete it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    DelIfEq,
    DelEx,
    Nothing,
    /// It is still loading.
    Loading,
}

#[derive(Default)]
struct State {
    keys: HashMap<String, (String, Option<Instant>)>,
    /// Every command except those of the handshake.
    asked: Vec<Vec<String>>,
    /// The replies to the next commands with these names, in this order, are lost.
    lose: VecDeque<String>,
    /// The reply to the next command with this name is this late, and so is everything behind it.
    late: Option<(String, Duration)>,
}

/// The server, which runs until the process exits.
pub(crate) struct ScriptlessServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl ScriptlessServer {
    pub(crate) fn start(dialect: Dialect) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        crate::support::spawn_helper(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(dialect, &state, stream));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Loses the replies to the next commands with these names.
    pub(crate) fn lose(&self, names: &[&str]) {
        self.state.lock().unwrap().lose = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Delays the reply to the next command with this name.
    pub(crate) fn delay(&self, name: &str, by: Duration) {
        self.state.lock().unwrap().late = Some((name.to_owned(), by));
    }

    /// Stores a foreign value.
    pub(crate) fn set(&self, key: &str, value: &str, ttl: Duration) {
        let until = Some(Instant::now() + ttl);
        self.state.lock().unwrap().keys.insert(key.to_owned(), (value.to_owned(), until));
    }

    /// The value of the key and its remaining TTL.
    pub(crate) fn get(&self, key: &str) -> Option<(String, Duration)> {
        let mut state = self.state.lock().unwrap();
        let (value, until) = state.live(key)?.clone();
        Some((value, until?.saturating_duration_since(Instant::now())))
    }

    /// How often it has received this command.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|words| words[0] == name).count()
    }
}

fn serve(dialect: Dialect, state: &Mutex<State>, mut stream: TcpStream) -> Option<()> {
    let mut asked = BufReader::new(stream.try_clone().unwrap());
    let mut queue: Option<Vec<Vec<String>>> = None;
    loop {
        let words = command(&mut asked)?;
        let mut state = state.lock().unwrap();
        if !words.iter().any(|word| word.contains("redlock-rights")) {
            state.asked.push(words.clone());
        }
        let answer = match (&*words[0], &mut queue) {
            ("EXEC", Some(_)) => {
                let all: Vec<_> =
                    queue.take()?.iter().map(|it| state.answer(dialect, it)).collect();
                format!("*{}\r\n{}", all.len(), all.concat())
            }
            (_, Some(queue)) => {
                queue.push(words.clone());
                "+QUEUED\r\n".into()
            }
            ("MULTI", None) => {
                queue = Some(Vec::new());
                "+OK\r\n".into()
            }
            _ => state.answer(dialect, &words),
        };
        if state.lose.front() == Some(&words[0]) {
            state.lose.pop_front();
        } else {
            let late = state.late.take_if(|(name, _)| *name == words[0]);
            drop(state);
            late.inspect(|(_, by)| std::thread::sleep(*by));
            stream.write_all(answer.as_bytes()).ok()?;
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

impl State {
    fn live(&mut self, key: &str) -> Option<&mut (String, Option<Instant>)> {
        if self.keys.get(key)?.1.is_some_and(|until| until <= Instant::now()) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    fn answer(&mut self, dialect: Dialect, words: &[String]) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let key = words.get(1).copied().unwrap_or_default();
        match &words[..] {
            ["HELLO", ..] => "%1\r\n$5\r\nproto\r\n:3\r\n".into(),
            ["INFO", ..] => bulk(""),
            ["PING", text] => bulk(text),
            ["SCRIPT" | "EVALSHA", ..] => {
                format!(
                    "-NOPERM User app has no permissions to run the '{}' command\r\n",
                    words[0].to_lowercase()
                )
            }
            ["DELIFEQ" | "DELEX", ..] if dialect == Dialect::Loading => {
                "-LOADING not yet\r\n".into()
            }
            ["DELIFEQ", _, value] if dialect == Dialect::DelIfEq => self.delete(key, value),
            ["DELEX", _, "IFEQ", value] if dialect == Dialect::DelEx => self.delete(key, value),
            ["SET", _, value, rest @ ..] => self.set(key, value, rest),
            ["GETRANGE", _, _, last] => {
                let end = last.parse::<usize>().unwrap() + 1;
                bulk(self.live(key).map_or("", |(value, _)| &value[..value.len().min(end)]))
            }
            ["PTTL", _] => {
                let left = |until: Option<Instant>| {
                    until.map_or(-1, |until| {
                        i128::try_from((until - Instant::now()).as_millis()).unwrap()
                    })
                };
                format!(":{}\r\n", self.live(key).map_or(-2, |(_, until)| left(*until)))
            }
            ["PEXPIRE", _, ttl, "GT"] => {
                let new = Instant::now() + Duration::from_millis(ttl.parse().unwrap());
                let longer = self.live(key).filter(|(_, until)| until.is_some_and(|old| old < new));
                format!(
                    ":{}\r\n",
                    longer.map_or(0, |entry| {
                        entry.1 = Some(new);
                        1
                    })
                )
            }
            ["CLIENT", ..] => "+OK\r\n".into(),
            _ => format!("-ERR unknown command '{}', with args beginning with: \r\n", words[0]),
        }
    }

    fn delete(&mut self, key: &str, value: &str) -> String {
        let ours = self.live(key).is_some_and(|(owner, _)| owner == value);
        if ours {
            self.keys.remove(key);
        }
        format!(":{}\r\n", u8::from(ours))
    }

    fn set(&mut self, key: &str, value: &str, rest: &[&str]) -> String {
        let old = self.live(key).cloned();
        let (carried, until) = match rest {
            ["NX", "PX", ttl] => {
                (old.is_none(), Some(Instant::now() + Duration::from_millis(ttl.parse().unwrap())))
            }
            ["IFEQ", owner, "PX", ttl] => (
                old.is_some_and(|(value, _)| value == *owner),
                Some(Instant::now() + Duration::from_millis(ttl.parse().unwrap())),
            ),
            ["IFEQ", owner, "KEEPTTL"] => {
                let until = old.as_ref().and_then(|(_, until)| *until);
                (old.is_some_and(|(value, _)| value == *owner), until)
            }
            ["XX"] => (old.is_some(), None),
            _ => return "-ERR syntax error\r\n".into(),
        };
        if carried {
            self.keys.insert(key.to_owned(), (value.to_owned(), until));
        }
        if carried { "+OK\r\n".into() } else { "_\r\n".into() }
    }
}
