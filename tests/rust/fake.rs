//! A server that behaves well until the command for which a row of `vectors/replies.toml` specifies a broken reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) about: String,
    pub(crate) to: String,
    say: String,
    then: Option<String>,
    #[serde(default)]
    first: String,
    pub(crate) cause: Vec<String>,
}

#[derive(Deserialize)]
struct Table {
    reply: Vec<Row>,
    attempt: Vec<Row>,
}

fn table() -> Table {
    let path = format!("{}/vectors/replies.toml", env!("CARGO_MANIFEST_DIR"));
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The rows that only the commands before the scripts can detect.
pub(crate) fn attempts() -> Vec<Row> {
    table().attempt
}

/// The rows of servers that stop sending, and the rows of servers that never stop.
pub(crate) fn rows() -> (Vec<Row>, Vec<Row>) {
    table().reply.into_iter().partition(|row| row.then.as_deref() != Some("again"))
}

/// Grants every request until `misbehave` is called.
pub(crate) struct Fake {
    port: u16,
    misbehaves: Arc<AtomicBool>,
    granted: Arc<AtomicBool>,
    /// Each connection holds a weak reference.
    open: Arc<()>,
}

impl Fake {
    pub(crate) fn start(row: &Row, misbehaves: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let misbehaves = Arc::new(AtomicBool::new(misbehaves));
        let (row, shared, open) = (row.clone(), Arc::clone(&misbehaves), Arc::new(()));
        let granted = Arc::<AtomicBool>::default();
        let has_granted = Arc::clone(&granted);
        let connection = Arc::downgrade(&open);
        crate::support::spawn_helper(move || {
            for stream in listener.incoming().flatten() {
                let (row, misbehaves) = (row.clone(), Arc::clone(&shared));
                let granted = Arc::clone(&has_granted);
                let connection = connection.clone();
                std::thread::spawn(move || {
                    let _ = serve(&row, &misbehaves, &granted, stream);
                    drop(connection);
                });
            }
        });
        Self { port, misbehaves, granted, open }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://user:s3cret-word@127.0.0.1:{}", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        Arc::weak_count(&self.open)
    }

    /// Whether it has granted a lock through the acquire script.
    pub(crate) fn granted(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }

    pub(crate) fn misbehave(&self) {
        self.misbehaves.store(true, Ordering::Relaxed);
    }
}

fn serve(
    row: &Row,
    misbehaves: &AtomicBool,
    granted: &AtomicBool,
    mut stream: TcpStream,
) -> Option<()> {
    let mut asked = BufReader::new(stream.try_clone().ok()?);
    if row.to == "connect" && misbehaves.load(Ordering::Relaxed) {
        write_reply(row, &[], &mut stream)?;
    }
    loop {
        let words = command(&mut asked)?;
        // The client checks this right when it connects. The rows apply to the later commands.
        let probe = words.iter().any(|word| word.contains("redlock-rights"));
        if words[0] == row.to && !probe && misbehaves.load(Ordering::Relaxed) {
            write_reply(row, &words, &mut stream)?;
        } else {
            // A release has no TTL after its token.
            if words[0] == "EVALSHA" && words.len() > 5 {
                granted.store(true, Ordering::Relaxed);
            }
            stream.write_all(correct_reply(row, &words).as_bytes()).ok()?;
        }
    }
}

/// The arguments of one command. `None` once the client has disconnected.
pub(crate) fn command(asked: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(asked)? {
        let mut word = vec![0; number(asked)? + 2];
        asked.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

/// The number in a line such as `*3`.
fn number(asked: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    asked.read_line(&mut line).ok()?;
    line.trim().get(1..)?.parse().ok()
}

/// The last element of a script's reply, as a bulk string.
fn bulk(words: &[String]) -> String {
    let echo = words.get(4).or(words.get(3)).map_or("", String::as_str);
    format!("${}\r\n{echo}\r\n", echo.len())
}

fn write_reply(row: &Row, words: &[String], stream: &mut TcpStream) -> Option<()> {
    let text = row.say.replace("{bulk}", &bulk(words)).replace("{asked}", &words.join(" "));
    stream.write_all(row.first.as_bytes()).ok()?;
    if row.then.as_deref() == Some("again") {
        let text = text.repeat(1000);
        loop {
            stream.write_all(text.as_bytes()).ok()?;
        }
    }
    stream.write_all(text.as_bytes()).ok()?;
    (row.then.as_deref() != Some("close")).then_some(())
}

fn correct_reply(row: &Row, words: &[String]) -> String {
    match words[0].as_str() {
        "HELLO" if row.to == "AUTH" => "-NOPROTO unsupported protocol version\r\n".into(),
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".into(),
        // This includes the owner, which is empty, so that the client sends the script.
        "INFO" | "GETRANGE" => "$0\r\n\r\n".into(),
        "SCRIPT" => "$2\r\nok\r\n".into(),
        "EVALSHA" => format!("*4\r\n:1\r\n:60000\r\n$0\r\n\r\n{}", bulk(words)),
        "TIME" => "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n".into(),
        _ => "+OK\r\n".into(),
    }
}
