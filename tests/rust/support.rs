//! Throw-away servers, a proxy that misbehaves, and small helpers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock::Redlock;

/// A redis-server of the test's own, killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    folder: std::path::PathBuf,
    extra: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(extra: &[&str]) -> Self {
        let port = free_port();
        let folder =
            std::env::temp_dir().join(format!("redlock-test-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(port, &folder, &extra);
        let server = Self { child, port, folder, extra };
        server.wait_ready();
        server
    }

    fn wait_ready(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "redis-server did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, empty, on the same port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.folder, &self.extra);
        self.wait_ready();
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet reaped.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }

    /// One command of an inline kind, and the first line of its answer (a bulk string's text).
    pub(crate) fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut text = Vec::new();
        let mut byte = [0; 1];
        let mut line = |text: &mut Vec<u8>| {
            text.clear();
            while !text.ends_with(b"\r\n") {
                stream.read_exact(&mut byte).unwrap();
                text.push(byte[0]);
            }
            String::from_utf8_lossy(text).trim_end().to_owned()
        };
        let first = line(&mut text);
        if first.starts_with('$') && first != "$-1" { line(&mut text) } else { first }
    }

    /// What a section of `INFO` says of something.
    pub(crate) fn info(&self, section: &str, of: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("INFO {section}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines().find_map(|line| Some(line.strip_prefix(of)?.strip_prefix(':')?.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The least that a user needs who uses everything: `docs/security.md`.
pub(crate) const RIGHTS: &str = include_str!("../vectors/rights.txt").trim_ascii_end();

/// `make test-acl` has the clients of most tests log in as a user with the least rights.
fn url(port: u16) -> String {
    let user =
        if std::env::var_os("REDLOCK_TEST_ACL").is_some() { "least:s3cret-word@" } else { "" };
    format!("redis://{user}127.0.0.1:{port}")
}

fn spawn(port: u16, folder: &std::path::Path, extra: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "no", "--dir"])
        .arg(folder)
        .args(["--user", "least", "on", ">s3cret-word"])
        .args(RIGHTS.split_whitespace())
        .args(extra)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed by the tests")
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|_| Server::start()).collect()
}

/// Runs a proxy or the like for as long as the process lives, under a name of its own: with its test's it would be taken
/// for a test that does not end.
pub(crate) fn aside(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name("aside".into()).spawn(work).unwrap();
}

/// A node that accepts connections and never answers: whoever called it is found out.
pub(crate) struct Silent(TcpListener);

impl Silent {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub(crate) fn called(&self) -> bool {
        self.0.accept().is_ok()
    }
}

/// A client over fresh servers: they are younger than the default restart guard.
pub(crate) fn client<'a>(nodes: impl IntoIterator<Item = &'a Server>) -> Redlock {
    let urls: Vec<String> = nodes.into_iter().map(Server::url).collect();
    Redlock::builder(urls).restart_guard(Duration::ZERO).build().unwrap()
}

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How the proxy treats the servers' answers and the clients' bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Pass,
    /// Nothing passes in either direction.
    Blackhole,
    /// Requests pass, answers do not.
    DropReplies,
    /// Each answer comes [`DELAY`] late.
    Delay,
    /// No server tells its age: it is below zero, or no number.
    Ageless,
}

pub(crate) const DELAY: Duration = Duration::from_millis(150);

/// A TCP proxy in front of a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    leads_to: Arc<AtomicU16>,
    mode: Arc<AtomicU8>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            leads_to: Arc::new(AtomicU16::new(port)),
            mode: Arc::new(AtomicU8::new(Mode::Pass as u8)),
            streams: Arc::default(),
            connections: Arc::default(),
        };
        let (mode, streams) = (Arc::clone(&proxy.mode), Arc::clone(&proxy.streams));
        let connections = Arc::clone(&proxy.connections);
        let leads_to = Arc::clone(&proxy.leads_to);
        aside(move || {
            for client in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                let server = SocketAddr::from(([127, 0, 0, 1], leads_to.load(Ordering::Relaxed)));
                let Ok(upstream) = TcpStream::connect(server) else { continue };
                let mut open = streams.lock().unwrap();
                open.push(client.try_clone().unwrap());
                open.push(upstream.try_clone().unwrap());
                drop(open);
                let copies = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                let (there, back) = (Arc::clone(&mode), Arc::clone(&mode));
                let lost = |mode: u8| mode == Mode::Blackhole as u8;
                let unheard = |mode: u8| {
                    if mode == Mode::Delay as u8 {
                        std::thread::sleep(DELAY);
                    }
                    mode == Mode::Blackhole as u8 || mode == Mode::DropReplies as u8
                };
                std::thread::spawn(move || pump(client, upstream, &there, lost));
                std::thread::spawn(move || pump(copies.1, copies.0, &back, unheard));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Has new connections lead to another server, and ends those there are.
    pub(crate) fn lead_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::Relaxed);
        self.reset();
    }

    /// Ends every connection there is.
    pub(crate) fn reset(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8, swallow: fn(u8) -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if mode.load(Ordering::Relaxed) == Mode::Ageless as u8 {
            let age = b"uptime_in_seconds:";
            let at = buffer[..count].windows(age.len()).position(|word| word == age);
            at.into_iter().for_each(|at| buffer[at + age.len()] = b'-');
        }
        if !swallow(mode.load(Ordering::Relaxed)) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
