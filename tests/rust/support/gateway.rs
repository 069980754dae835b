//! A proxy that knows the protocol, and does not pass every command on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::spawn_helper;

/// What becomes of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// The client's connection is closed, as twemproxy does.
    Close,
    /// The proxy replies itself.
    Reply(&'static str),
    /// The proxy replies itself, and closes the client's connection.
    Dismiss(&'static str),
}

/// The proxy; it lives as long as the process.
pub(crate) struct Gateway {
    port: u16,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Gateway {
    /// In front of the server at this port. `judge` sees the words of each command, and whether the client has logged
    /// in.
    pub(crate) fn to(
        server: u16,
        judge: impl Fn(&[String], bool) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, judge) = (Arc::<AtomicUsize>::default(), Arc::new(judge));
        let count = Arc::clone(&connections);
        spawn_helper(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let judge = Arc::clone(&judge);
                std::thread::spawn(move || serve(&client, server, &*judge));
            }
        });
        Self { port, connections }
    }

    /// What twemproxy passes of what redlock sends: it closes the connection at any other command.
    pub(crate) fn twemproxy(server: u16) -> Self {
        const KNOWN: [&str; 12] = [
            "AUTH", "PING", "GET", "SET", "DEL", "PTTL", "PEXPIRE", "GETRANGE", "EXISTS", "EVAL",
            "EVALSHA", "QUIT",
        ];
        Self::to(
            server,
            |words, _| {
                if KNOWN.contains(&&*words[0]) { Verdict::Pass } else { Verdict::Close }
            },
        )
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn serve(
    client: &TcpStream,
    server: u16,
    judge: &(impl Fn(&[String], bool) -> Verdict + ?Sized),
) -> Option<()> {
    let upstream = TcpStream::connect(("127.0.0.1", server)).ok()?;
    let mut requests = BufReader::new(client.try_clone().ok()?);
    let mut replies = BufReader::new(upstream.try_clone().ok()?);
    let mut logged_in = false;
    loop {
        let mut request = Vec::new();
        item(&mut requests, &mut request)?;
        let words = words(&request);
        let reply = match judge(&words, logged_in) {
            Verdict::Close => {
                let _ = client.shutdown(std::net::Shutdown::Both);
                return None;
            }
            Verdict::Reply(reply) => reply.as_bytes().to_vec(),
            Verdict::Dismiss(reply) => {
                let _ = (&*client).write_all(reply.as_bytes());
                let _ = client.shutdown(std::net::Shutdown::Both);
                return None;
            }
            Verdict::Pass => {
                (&upstream).write_all(&request).ok()?;
                let mut reply = Vec::new();
                // Notifications before it belong to the client, too.
                while item(&mut replies, &mut reply)? == b'>' {}
                reply
            }
        };
        logged_in |= words[0] == "AUTH" && reply.starts_with(b"+OK");
        (&*client).write_all(&reply).ok()?;
    }
}

/// Copies one value of the protocol, and returns its type.
fn item(from: &mut impl BufRead, into: &mut Vec<u8>) -> Option<u8> {
    let begin = into.len();
    if from.read_until(b'\n', into).ok()? == 0 {
        return None;
    }
    let (kind, line) = (into[begin], String::from_utf8_lossy(&into[begin + 1..]).into_owned());
    let number = || line.trim().parse::<i64>().unwrap_or(0);
    match kind {
        b'$' | b'=' if number() >= 0 => {
            let mut bytes = vec![0; usize::try_from(number()).unwrap() + 2];
            from.read_exact(&mut bytes).ok()?;
            into.extend(bytes);
        }
        b'*' | b'>' | b'~' => (0..number()).try_for_each(|_| item(from, into).map(drop))?,
        b'%' => (0..2 * number()).try_for_each(|_| item(from, into).map(drop))?,
        _ => {}
    }
    Some(kind)
}

/// The words of a request, which hold no line breaks but those of scripts.
fn words(request: &[u8]) -> Vec<String> {
    let mut rest = BufReader::new(request);
    let mut line = String::new();
    rest.read_line(&mut line).unwrap();
    let count: usize = line.trim()[1..].parse().unwrap();
    let word = |_| {
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let mut word = vec![0; line.trim()[1..].parse::<usize>().unwrap() + 2];
        rest.read_exact(&mut word).unwrap();
        word.truncate(word.len() - 2);
        String::from_utf8_lossy(&word).into_owned()
    };
    (0..count).map(word).collect()
}
