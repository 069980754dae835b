//! The clients of an agent, and the commands about them and their locks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use redlock::testing::TestRedlock;
use redlock::{Builder, Error, Leader, Lease, Lock, Once, Redlock, TlsOptions};
use serde_json::{Value, json};

use super::millis;

pub(crate) struct Clients {
    /// The nodes of a client that names none.
    nodes: RefCell<Vec<String>>,
    guard: Duration,
    by_key: RefCell<HashMap<String, Rc<Client>>>,
}

/// The clients as they show themselves, without the URLs of the test, which have a password.
impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_key.borrow().values()).finish()
    }
}

/// A client, which may have a node in memory and the clock of a test.
#[derive(Debug)]
enum Client {
    Plain(Redlock),
    Test(TestRedlock),
}

impl Deref for Client {
    type Target = Redlock;

    fn deref(&self) -> &Redlock {
        match self {
            Self::Plain(client) => client,
            Self::Test(client) => client,
        }
    }
}

impl Clients {
    pub(crate) fn new(nodes: &str, guard: Duration) -> Self {
        let nodes = nodes.split(' ').map(str::to_owned).collect();
        Self { nodes: RefCell::new(nodes), guard, by_key: RefCell::default() }
    }

    /// The client of a command, which is created at its first command.
    fn client(&self, command: &Value) -> Rc<Client> {
        let key = command["client"].as_str().unwrap_or("one").to_owned();
        let found = self.by_key.borrow().get(&key).cloned();
        found.unwrap_or_else(|| {
            let client = Rc::new(self.create(&json!({})).expect("a client"));
            self.by_key.borrow_mut().insert(key, Rc::clone(&client));
            client
        })
    }

    fn create(&self, command: &Value) -> Result<Client, Error> {
        let options = |builder: Builder| client_options(builder, command);
        let nodes = match command["nodes"].as_array() {
            Some(nodes) => nodes.iter().map(|node| node.as_str().unwrap().to_owned()).collect(),
            None => self.nodes.borrow().clone(),
        };
        if nodes == ["memory://"] {
            let client = TestRedlock::with(options)?;
            // Further clients use the same node.
            *self.nodes.borrow_mut() = client.nodes();
            return Ok(Client::Test(client));
        }
        let replicas =
            std::env::var("MIN_REPLICAS").map_or(0, |count| count.parse().expect("a number"));
        let builder = Redlock::builder(nodes).restart_guard(self.guard).min_replicas(replicas);
        // A failover on a busy machine may take longer than the default.
        let builder = builder.unavailable_after(None);
        Ok(Client::Plain(options(builder).build()?))
    }

    pub(crate) fn lock(&self, command: &Value) -> Lock {
        let (client, names) = (self.client(command), names(command));
        let number = |field: &str| command[field].as_u64();
        let count = |field: &str| number(field).map(|count| u32::try_from(count).unwrap());
        let duration = |field: &str| number(field).map(Duration::from_millis);
        let mut lock = match (count("limit"), command["side"].as_str()) {
            (Some(limit), _) => client.semaphore(names, limit),
            (_, Some("read")) => client.rwlock(names).read(),
            (_, Some(_)) => client.rwlock(names).write(),
            (None, None) => client.lock(names),
        };
        if let Some(permits) = count("permits") {
            lock = lock.permits(permits);
        }
        if let Some(ttl) = duration("ttl_ms") {
            lock = lock.ttl(ttl);
        }
        if let Some(timeout) = duration("node_timeout_ms") {
            lock = lock.node_timeout(timeout);
        }
        lock = match (command["label"].as_str(), command["label"].as_bool()) {
            (Some(label), _) => lock.label(label),
            (None, Some(true)) => lock.label_host(),
            _ => lock,
        };
        lock.fencing(command["fencing"].as_bool().unwrap_or_default())
            .renew(command["renew"].as_bool().unwrap_or(true))
            .min_hold(duration("min_hold_ms").unwrap_or_default())
            .max_hold(duration("max_hold_ms"))
    }

    pub(crate) fn once(&self, command: &Value) -> Once {
        let duration = |field: &str| command[field].as_u64().map(Duration::from_millis);
        let remember = duration("remember_ms").expect("remember_ms");
        let mut once = self.client(command).once(names(command), remember);
        if let Some(ttl) = duration("ttl_ms") {
            once = once.ttl(ttl);
        }
        if let Some(label) = command["label"].as_str() {
            once = once.label(label);
        }
        once.wait(duration("wait_ms").unwrap_or_default())
    }

    pub(crate) fn leader(&self, command: &Value) -> Leader {
        let duration = |field: &str| command[field].as_u64().map(Duration::from_millis);
        let mut leader = self.client(command).leader(names(command));
        if let Some(ttl) = duration("ttl_ms") {
            leader = leader.ttl(ttl);
        }
        if let Some(label) = command["label"].as_str() {
            leader = leader.label(label);
        }
        leader
            .fencing(command["fencing"].as_bool().unwrap_or_default())
            .max_hold(duration("max_hold_ms"))
    }

    pub(crate) async fn run(&self, verb: &str, command: &Value) -> Result<Value, Error> {
        let timeout = || Duration::from_millis(command["timeout_ms"].as_u64().expect("timeout_ms"));
        Ok(match verb {
            "client" => {
                let key = command["client"].as_str().expect("a client").to_owned();
                let client = Rc::new(self.create(command)?);
                let nodes = client.nodes();
                self.by_key.borrow_mut().insert(key, client);
                json!({"nodes": nodes})
            }
            "inspect" => inspected(&self.lock(command)).await?,
            "keys" => {
                let lock = self.lock(command);
                json!({"key": lock.key(), "keys": lock.keys(), "shown": format!("{lock:?}")})
            }
            "force_release" => json!({"deleted": self.lock(command).force_release().await?}),
            "list_leases" => {
                let leases = self.client(command).leases();
                let mut tokens: Vec<_> = leases.iter().map(|it| it.token().to_owned()).collect();
                tokens.sort();
                json!({"tokens": tokens})
            }
            "release_all" => json!({"released": self.client(command).release_all().await?}),
            "stats" => stats(&self.client(command)),
            "shutdown" => json!({"released": self.client(command).shutdown(timeout()).await?}),
            "ping" => pinged(&self.client(command), timeout()).await?,
            "close" => {
                self.client(command).close();
                json!({})
            }
            other => panic!("no such command: {other}"),
        })
    }

    /// Acquires a lock as another holder than this client.
    pub(crate) async fn hold(&self, command: &Value) -> Result<Lease, Error> {
        match &*self.client(command) {
            Client::Test(client) => client.hold(names(command)).await,
            Client::Plain(_) => panic!("only a client with memory:// can do that"),
        }
    }

    pub(crate) async fn of_test(&self, verb: &str, command: &Value) -> Result<Value, Error> {
        let client = self.client(command);
        let Client::Test(client) = &*client else {
            panic!("only a client with memory:// can do that")
        };
        let time = Duration::from_millis(command["ms"].as_u64().unwrap_or_default());
        match verb {
            "lose" => return Ok(json!({"lost": client.lose(names(command)).await?})),
            "advance" => client.advance(time).await,
            "jump" => client.jump(time).await,
            "fail" => client.fail(),
            _ => client.recover(),
        }
        Ok(json!({}))
    }
}

fn client_options(mut builder: Builder, command: &Value) -> Builder {
    let number = |field: &str| command[field].as_u64();
    let duration = |field: &str| number(field).map(Duration::from_millis);
    if let Some(prefix) = command["key_prefix"].as_str() {
        builder = builder.key_prefix(prefix);
    }
    if let Some(replicas) = number("min_replicas") {
        builder = builder.min_replicas(u32::try_from(replicas).unwrap());
    }
    if let Some(fsync) = command["fsync"].as_bool() {
        builder = builder.fsync(fsync);
    }
    if let Some(timeout) = duration("node_timeout_ms") {
        builder = builder.node_timeout(timeout);
    }
    if let Some(timeout) = duration("connect_timeout_ms") {
        builder = builder.connect_timeout(timeout);
    }
    if command.get("unavailable_after_ms").is_some() {
        builder = builder.unavailable_after(duration("unavailable_after_ms"));
    }
    if let Some(guard) = duration("restart_guard_ms") {
        builder = builder.restart_guard(guard);
    }
    if let Some(name) = command["client_name"].as_str() {
        builder = builder.client_name(name);
    }
    builder = builder.tls(tls_options(command));
    match (command["label"].as_str(), command["label"].as_bool()) {
        (Some(label), _) => builder.label(label),
        (None, Some(true)) => builder.label_host(),
        _ => builder,
    }
}

fn tls_options(command: &Value) -> TlsOptions {
    let mut tls = TlsOptions::new();
    let text = |field: &str| command[field].as_str().map(str::to_owned);
    for (field, set) in [
        ("tls_ca", TlsOptions::ca as fn(_, String) -> _),
        ("tls_cert", TlsOptions::cert),
        ("tls_key", TlsOptions::key),
        ("tls_server_name", TlsOptions::server_name),
    ] {
        tls = match text(field) {
            Some(text) => set(tls, text),
            None => tls,
        };
    }
    command["tls_verify"].as_bool().into_iter().fold(tls, TlsOptions::verify)
}

fn names(command: &Value) -> Vec<String> {
    match &command["name"] {
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
        name => vec![name.as_str().expect("a name").to_owned()],
    }
}

async fn inspected(lock: &Lock) -> Result<Value, Error> {
    let found = lock.inspect().await?;
    let nodes = found.nodes.iter().map(|node| {
        let (state, token) = (node.state.as_str(), &node.token);
        json!({"key": node.key, "state": state, "token": token, "label": node.label, "error": node.error})
    });
    Ok(json!({
        "held": found.held,
        "mode": found.mode,
        "taken": found.taken,
        "limit": found.limit,
        "label": found.label,
        "remaining_ms": found.remaining.map(millis),
        "nodes": nodes.collect::<Vec<_>>(),
    }))
}

async fn pinged(client: &Redlock, timeout: Duration) -> Result<Value, Error> {
    let found = client.ping(timeout).await?;
    let nodes = found.nodes.iter().map(|node| {
        json!({
            "url": node.url,
            "ready": node.ready,
            "ready_in_ms": node.ready_in.map(millis),
            "latency_ms": node.latency.map(millis),
            "error": node.error,
        })
    });
    let nodes: Vec<_> = nodes.collect();
    Ok(json!({"ready": found.ready, "ready_in_ms": found.ready_in.map(millis), "nodes": nodes}))
}

fn stats(client: &Redlock) -> Value {
    let stats = client.stats();
    let lost: HashMap<_, _> =
        stats.lost.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    json!({
        "granted": stats.granted,
        "refused": stats.refused,
        "timed_out": stats.timed_out,
        "unavailable": stats.unavailable,
        "released": stats.released,
        "renewed": stats.renewed,
        "waiting": stats.waiting,
        "held": stats.held,
        "lost": lost,
        "time_waited_ms": millis(stats.time_waited),
        "time_held_ms": millis(stats.time_held),
    })
}
