//! Services of throw-away servers under throw-away sentinels.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{program, user};
use super::{Server, eventually_blocking, free_port};

/// A service: a primary that can fail over to its replicas.
pub(crate) struct Service {
    /// The name that the sentinels use.
    pub(crate) name: String,
    /// The first server is the initial primary.
    pub(crate) servers: Vec<Server>,
}

/// The sentinels, and the services that they monitor.
pub(crate) struct Sentinels {
    children: Vec<Child>,
    pub(crate) ports: Vec<u16>,
    folder: PathBuf,
    pub(crate) services: Vec<Service>,
    /// The password of the sentinels. The servers have a separate one.
    password: Option<&'static str>,
}

/// The servers' password, if they have one.
pub(crate) const SERVERS_PASSWORD: &str = "s3cret-servers";

impl Sentinels {
    /// Starts three sentinels and services of one primary and this many replicas each.
    pub(crate) fn start(services: usize, replicas: usize) -> Self {
        Self::with(services, replicas, None)
    }

    /// The same with passwords: this one for the sentinels, and another one for the servers.
    pub(crate) fn with(services: usize, replicas: usize, password: Option<&'static str>) -> Self {
        let services: Vec<_> =
            (0..services).map(|at| Service::start(at, replicas, password.is_some())).collect();
        let name = format!("redlock-sentinels-{}-{}", std::process::id(), free_port());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (children, ports) = (Vec::new(), Vec::new());
        let mut this = Self { children, ports, folder, services, password };
        // In CI, one sentinel once did not start. The subject of a test does not depend on it.
        let unready = (0..3).map_while(|_| this.begin().err()).collect::<Vec<_>>();
        assert!(unready.len() < 3, "{unready:#?}");
        this
    }

    /// Starts new sentinels and waits until each knows the others and all replicas. Otherwise returns the reply of one
    /// that does not.
    fn begin(&mut self) -> Result<(), String> {
        self.end();
        self.ports = (0..3).map(|_| free_port()).collect();
        self.children = (0..3).map(|at| self.spawn(at)).collect();
        let end = Instant::now() + Duration::from_secs(20);
        for (port, service) in
            self.ports.iter().flat_map(|port| self.services.iter().map(move |one| (*port, one)))
        {
            while !self.knows_all(port, service) {
                if Instant::now() > end {
                    return Err(self.ask(port, &["SENTINEL", "MASTER", &service.name]));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    fn knows_all(&self, port: u16, service: &Service) -> bool {
        let replicas = (service.servers.len() - 1).to_string();
        let field = |field| self.field(port, &service.name, field);
        field("num-other-sentinels").as_deref() == Some("2")
            && field("num-slaves") == Some(replicas)
    }

    fn end(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// A single sentinel that accepts only TLS and reports this port for `service-0`.
    pub(crate) fn alone(primary: u16, certificates: impl Fn(&str) -> PathBuf) -> Self {
        let port = free_port();
        let mut lines = vec!["port 0".into(), format!("tls-port {port}")];
        lines.push("tls-auth-clients no".into());
        for (option, name) in
            [("cert-file", "server.crt"), ("key-file", "server.key"), ("ca-cert-file", "ca.crt")]
        {
            lines.push(format!("tls-{option} {}", certificates(name).display()));
        }
        Self::one(port, lines, primary)
    }

    /// A single sentinel that reports this port for `service-0`.
    pub(crate) fn reporting(primary: u16) -> Self {
        let port = free_port();
        Self::one(port, vec![format!("port {port}")], primary)
    }

    fn one(port: u16, mut lines: Vec<String>, primary: u16) -> Self {
        let name = format!("redlock-sentinels-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        lines.push("bind 127.0.0.1".into());
        lines.push(format!("sentinel monitor service-0 127.0.0.1 {primary} 1"));
        let child = run(&folder.join("sentinel.conf"), &lines);
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually_blocking("the sentinel starts", listens);
        let (ports, services) = (vec![port], Vec::new());
        Self { children: vec![child], ports, folder, services, password: None }
    }

    fn spawn(&self, at: usize) -> Child {
        let port = self.ports[at];
        let mut lines = vec![format!("port {port}"), "bind 127.0.0.1".into()];
        if let Some(password) = self.password {
            lines.push(format!("requirepass {password}"));
            lines.push(format!("sentinel sentinel-pass {password}"));
        }
        for service in &self.services {
            let (name, primary) = (&service.name, service.servers[0].port);
            lines.push(format!("sentinel monitor {name} 127.0.0.1 {primary} 2"));
            for (option, value) in [("down-after-milliseconds", 500), ("failover-timeout", 3000)] {
                lines.push(format!("sentinel {option} {name} {value}"));
            }
            if self.password.is_some() {
                lines.push(format!("sentinel auth-pass {name} {SERVERS_PASSWORD}"));
            }
        }
        run(&self.folder.join(format!("{port}.conf")), &lines)
    }

    /// The reply of a sentinel. Empty while it does not run.
    pub(crate) fn ask(&self, port: u16, words: &[&str]) -> String {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &port.to_string(), "--no-auth-warning"]);
        client.args(self.password.map(|password| ["-a", password]).into_iter().flatten());
        let output = client.args(words).output().expect("redis-cli is needed by the tests");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// One field of a sentinel's reply about a service.
    fn field(&self, port: u16, service: &str, field: &str) -> Option<String> {
        let text = self.ask(port, &["SENTINEL", "MASTER", service]);
        let mut lines = text.lines();
        lines.find(|line| *line == field)?;
        lines.next().map(str::to_owned)
    }

    /// The port of a service's primary according to a sentinel.
    pub(crate) fn primary_by(&self, port: u16, service: &str) -> Option<u16> {
        let text = self.ask(port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]);
        text.lines().nth(1)?.parse().ok()
    }

    /// Starts a failover of a service as soon as the sentinels can. Returns when it has started.
    pub(crate) fn fail_over(&self, service: usize) {
        let command = ["SENTINEL", "FAILOVER", &self.services[service].name];
        let begun = || self.ask(self.ports[0], &command).starts_with("OK");
        eventually_blocking("a replica can be promoted", begun);
    }

    /// Waits until all sentinels report a primary other than this one. Returns its port.
    pub(crate) fn wait_switched(&self, service: usize, from: u16) -> u16 {
        let name = &self.services[service].name;
        let mut named = Vec::new();
        eventually_blocking("a failover", || {
            named = self.ports.iter().filter_map(|port| self.primary_by(*port, name)).collect();
            named.first().is_some_and(|first| *first != from && named.iter().all(|it| it == first))
        });
        named[0]
    }

    /// The service's server at this port.
    pub(crate) fn server(&mut self, port: u16) -> &mut Server {
        let mut servers = self.services.iter_mut().flat_map(|service| &mut service.servers);
        servers.find(|server| server.port == port).unwrap()
    }

    /// The URL of one service.
    pub(crate) fn url(&self, service: usize) -> String {
        let hosts: Vec<_> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (hosts, name) = (hosts.join(","), &self.services[service].name);
        match self.password {
            None => format!("redis+sentinel://{}{hosts}/{name}", user()),
            Some(password) => format!(
                "redis+sentinel://:{SERVERS_PASSWORD}@{hosts}/{name}?sentinel_password={password}"
            ),
        }
    }
}

impl Service {
    fn start(at: usize, replicas: usize, secret: bool) -> Self {
        let password = ["--requirepass", SERVERS_PASSWORD, "--masterauth", SERVERS_PASSWORD];
        let password = if secret { &password[..] } else { &[] };
        // The primary detects and synchronizes its replicas quickly.
        let quick = ["--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0"];
        let mut servers = vec![Server::with(&[&quick[..], password].concat())];
        let primary = servers[0].port.to_string();
        for _ in 0..replicas {
            let follow = ["--replicaof", "127.0.0.1", &primary];
            servers.push(Server::with(&[&quick[..], password, &follow].concat()));
        }
        Self { name: format!("service-{at}"), servers }
    }
}

/// Sentinels write their state into their configuration file.
fn run(file: &Path, lines: &[String]) -> Child {
    std::fs::write(file, lines.join("\n")).unwrap();
    Command::new(program())
        .arg(file)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed by the tests")
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
