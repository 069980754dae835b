//! A real server on this machine, and connections to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::resp::Reply;

/// A server without a port, killed when dropped.
pub(super) struct RealServer {
    child: Child,
    folder: PathBuf,
}

impl RealServer {
    /// Returns `None` if there is no `redis-server` on this machine.
    pub(super) fn start() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("redlock-model-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = std::env::var("REDLOCK_TEST_SERVER");
        let mut command = Command::new(server.as_deref().unwrap_or("redis-server"));
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(folder.join("socket"));
        let child = command.stdout(Stdio::null()).spawn();
        Some(Self { child: child.ok()?, folder })
    }

    pub(super) fn connect(&mut self) -> Connection {
        loop {
            if let Ok(stream) = UnixStream::connect(self.folder.join("socket")) {
                return Connection(BufReader::new(stream));
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server does not start");
            std::thread::yield_now();
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(super) fn request(&mut self, words: &[&str]) -> Reply {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        self.read_reply()
    }

    fn read_reply(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        let mut parts = |count: i64| (0..count).map(|_| self.read_reply()).collect();
        match kind {
            "+" => Reply::Status(if rest == "OK" { "OK" } else { "PONG" }),
            "-" => Reply::error(rest),
            "_" => Reply::Nil,
            "," => Reply::bulk(rest),
            ":" => Reply::Int(rest.parse().unwrap()),
            "*" => Reply::List(parts(rest.parse().unwrap())),
            ">" => Reply::Push(parts(rest.parse().unwrap())),
            "%" => Reply::List(parts(2 * rest.parse::<i64>().unwrap())),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::bulk(String::from_utf8(text).unwrap())
            }
            other => panic!("{other}{rest}"),
        }
    }

    /// The keys of all pushes so far.
    pub(super) fn pushes(&mut self) -> Vec<String> {
        let (mut keys, mut next) = (Vec::new(), self.request(&["PING"]));
        while let Reply::Push(push) = next {
            let [_, Reply::List(changed)] = &push[..] else { panic!("{push:?}") };
            keys.extend(changed.iter().map(|key| format!("{key:?}")));
            next = self.read_reply();
        }
        keys.sort();
        keys
    }
}
