//! Throw-away servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::{eventually_blocking, free_port};

/// A redis-server of one test, killed when dropped.
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
        // Another process may take the port in between.
        let started = (0..5).find_map(|_| Self::try_at(free_port(), extra));
        started.expect("redis-server starts")
    }

    pub(crate) fn at(port: u16, extra: &[&str]) -> Self {
        Self::try_at(port, extra).expect("redis-server starts")
    }

    /// Returns `None` if the server ended immediately, as it does if the port is in use.
    fn try_at(port: u16, extra: &[&str]) -> Option<Self> {
        let folder =
            std::env::temp_dir().join(format!("redlock-test-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let extra: Vec<String> = extra.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(port, &folder, &extra);
        let mut server = Self { child, port, folder, extra };
        server.is_started().then_some(server)
    }

    /// Waits until the server accepts connections and has loaded its data. Returns false if it has ended.
    ///
    /// It reads the server's log. The port would also answer if it belonged to the server of another process.
    fn is_started(&mut self) -> bool {
        let log = self.folder.join(LOG);
        let mut ended = false;
        eventually_blocking("redis-server starts and loads its data", || {
            ended = self.child.try_wait().unwrap().is_some();
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            ended || log.contains("Ready to accept connections")
        });
        !ended
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again without data on the same port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.folder, &self.extra);
        assert!(self.is_started(), "redis-server starts again");
    }

    /// A replica of `primary` that has all its data.
    pub(crate) fn replica_of(primary: &Self) -> Self {
        let port = primary.port.to_string();
        let replica = Self::with(&["--replicaof", "127.0.0.1", &port]);
        let link = || replica.info("replication", "master_link_status");
        eventually_blocking("the replica follows", || link().as_deref() == Some("up"));
        replica
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child belongs to this process and is not reaped yet.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }

    /// Sends one inline command. Returns the first line of the reply, or the text of a bulk string.
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

    /// Sends one inline command. Returns the full reply.
    pub(crate) fn text(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.strip_suffix("+OK\r\n").unwrap_or(&text).to_owned()
    }

    /// Whether it sends the notifications for some client over that client's second connection.
    #[allow(dead_code, reason = "not every test program needs all of it")]
    pub(crate) fn redirects(&self) -> bool {
        let list = self.text("CLIENT LIST");
        // Not -1, which means no tracking, and not 0, which means the same connection.
        list.split(" redir=").skip(1).any(|id| !id.starts_with(['-', '0']))
    }

    /// A field in a section of `INFO`.
    pub(crate) fn info(&self, section: &str, of: &str) -> Option<String> {
        line(&self.text(&format!("INFO {section}")), of)
    }

    /// A field of `CLUSTER INFO`.
    pub(crate) fn cluster_info(&self, of: &str) -> String {
        line(&self.text("CLUSTER INFO"), of).unwrap_or_default()
    }
}

fn line(text: &str, of: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(of)?.strip_prefix(':')?.to_owned()))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The minimum rights of a user with access to all features: `docs/operate/security.md`.
pub(crate) const RIGHTS: &str = include_str!("../../vectors/rights.txt").trim_ascii_end();

/// `make test-acl` makes the clients of most tests log in as a user with the minimum rights.
pub(super) fn url(port: u16) -> String {
    format!("redis://{}127.0.0.1:{port}", user())
}

/// The user part of a URL, including the @.
pub(super) fn user() -> &'static str {
    if std::env::var_os("REDLOCK_TEST_ACL").is_some() { "least:s3cret-word@" } else { "" }
}

/// `make test-servers` makes the tests start another program.
pub(super) fn program() -> std::ffi::OsString {
    std::env::var_os("REDLOCK_TEST_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// The server's log, in its folder.
const LOG: &str = "server.log";

fn spawn(port: u16, folder: &std::path::Path, extra: &[String]) -> Child {
    let log = folder.join(LOG);
    let _ = std::fs::remove_file(&log);
    Command::new(program())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "no", "--dir"])
        .arg(folder)
        .arg("--logfile")
        .arg(log)
        .args(["--user", "least", "on", ">s3cret-word"])
        .args(RIGHTS.split_whitespace())
        .args(extra)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed by the tests")
}
