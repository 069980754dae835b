//! The commands of a server that read and write keys, without their connection.
//!
//! A test compares them with a real server ([`super::real_server`]).

use super::clock::Time;
use super::resp::Reply;
use super::scripts;
use super::server::{NO_END, Peer, Server};
use crate::node::{Operation, Script, scripts as all_scripts};

/// A command under way.
pub(super) struct Call<'a> {
    pub(super) server: &'a mut Server,
    pub(super) peer: Peer,
    /// The connection is notified of changes of the keys that it reads.
    pub(super) tracks: bool,
    pub(super) now: Time,
    /// The connections to notify, with the changed keys.
    pub(super) pushes: Vec<(Peer, String)>,
}

/// When `PEXPIRE` sets a TTL.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    Always,
    /// If there is none.
    Nx,
    /// If it is longer than the current one. No TTL is the longest.
    Gt,
    Lt,
}

/// What the commands of a script do.
impl Call<'_> {
    pub(super) fn ms(&self) -> u64 {
        self.server.clock_us(self.now) / 1000
    }

    fn track(&mut self, key: &str) {
        if self.tracks {
            self.server.track(key, self.peer);
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<String> {
        self.track(key);
        self.server.owner(key).map(str::to_owned)
    }

    /// The values of all keys, with one read.
    pub(super) fn values(&mut self, keys: &[&str]) -> Vec<Option<String>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    pub(super) fn pttl(&mut self, key: &str) -> i64 {
        self.track(key);
        match self.server.keys.get(key) {
            None => -2,
            Some((_, NO_END)) => -1,
            Some((_, end)) => i64::try_from(end - self.ms()).unwrap(),
        }
    }

    pub(super) fn set(&mut self, key: &str, value: &str, end: u64) {
        self.server.keys.insert(key.to_owned(), (value.to_owned(), end));
        self.wrote(key);
    }

    pub(super) fn del(&mut self, keys: &[&str]) -> i64 {
        let mut count = 0;
        for key in keys {
            if self.server.keys.remove(*key).is_some() {
                count += 1;
                self.wrote(key);
            }
        }
        count
    }

    pub(super) fn pexpire(&mut self, key: &str, ttl: u64, when: When) -> i64 {
        let end = self.ms() + ttl;
        let Some((_, known)) = self.server.keys.get_mut(key) else { return 0 };
        let sets = match when {
            When::Always => true,
            When::Nx => *known == NO_END,
            When::Gt => end > *known,
            When::Lt => end < *known,
        };
        if sets {
            *known = end;
            self.wrote(key);
        }
        sets.into()
    }

    fn wrote(&mut self, key: &str) {
        self.server.written(Some(self.peer));
        self.pushes.extend(self.server.changed(&[key.to_owned()], Some(self.peer)));
    }
}

impl Call<'_> {
    /// Runs a command. Returns `None` if it is not about keys.
    pub(super) fn run(&mut self, words: &[&str]) -> Option<Reply> {
        let expired = self.server.expire(self.now);
        self.pushes.extend(self.server.changed(&expired, None));
        Some(match words {
            ["GET", key] => Reply::text(self.get(key)),
            ["GETRANGE", key, first, last] => {
                let value = self.get(key).unwrap_or_default();
                let (first, last) = (int(first), int(last) + 1);
                let last = last.min(value.len() as u64);
                Reply::bulk(&value[first.min(last) as usize..last as usize])
            }
            ["MGET", keys @ ..] => {
                Reply::List(self.values(keys).into_iter().map(Reply::text).collect())
            }
            ["EXISTS", keys @ ..] => Reply::Int(self.values(keys).iter().flatten().count() as i64),
            ["PTTL", key] => Reply::Int(self.pttl(key)),
            ["DEL", keys @ ..] => Reply::Int(self.del(keys)),
            ["PEXPIRE", key, ttl] => Reply::Int(self.pexpire(key, int(ttl), When::Always)),
            ["SET", key, _, "XX"] if self.server.owner(key).is_none() => Reply::Nil,
            ["SET", key, value, "NX", "PX", ttl] => {
                if self.server.owner(key).is_some() {
                    return Some(Reply::Nil);
                }
                self.set(key, value, self.ms() + int(ttl));
                Reply::Status("OK")
            }
            ["SET", key, value] => {
                self.set(key, value, NO_END);
                Reply::Status("OK")
            }
            ["SCRIPT", "FLUSH"] => {
                self.server.scripts = false;
                Reply::Status("OK")
            }
            ["SCRIPT", "LOAD", text] => {
                self.server.scripts = true;
                Reply::bulk(&*script(|script| script.text == *text)?.digest)
            }
            ["EVALSHA", digest, ..] => match script(|script| script.digest == *digest) {
                Some(script) if self.server.scripts => self.evaluate(script.operation, words),
                _ => Reply::error("NOSCRIPT No matching script. Please use EVAL."),
            },
            ["EVAL", text, ..] => {
                self.server.scripts = true;
                self.evaluate(script(|script| script.text == *text)?.operation, words)
            }
            _ => return None,
        })
    }

    fn evaluate(&mut self, operation: Operation, words: &[&str]) -> Reply {
        let (keys, arguments) = words[3..].split_at(int(words[2]) as usize);
        scripts::run(self, operation, keys, arguments)
    }
}

/// The keys of a command.
pub(super) fn keys<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    match words {
        ["EVALSHA" | "EVAL", _, count, rest @ ..] => &rest[..int(count) as usize],
        ["MGET" | "EXISTS" | "DEL", keys @ ..] => keys,
        ["GET" | "GETRANGE" | "SET" | "PTTL" | "PEXPIRE", ..] => &words[1..2],
        _ => &[],
    }
}

/// Whether the command changes data, so that a replica refuses it.
pub(super) fn writes(words: &[&str]) -> bool {
    match words {
        ["EVALSHA", digest, ..] => scripts::writes(digest),
        [name, ..] => matches!(*name, "SET" | "DEL" | "PEXPIRE"),
        [] => false,
    }
}

fn script(is_it: impl Fn(&Script) -> bool) -> Option<&'static Script> {
    all_scripts().iter().find(|script| is_it(script))
}

pub(super) fn int(word: &str) -> u64 {
    word.parse().unwrap()
}
