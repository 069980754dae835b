//! Throw-away clusters.

use std::net::TcpListener;
use std::ops::Range;

use super::proxy::{Mode, Proxy};
use super::server::Server;
use super::{eventually_blocking, free_port};

/// Number of slots of a cluster.
const SLOTS: usize = 16_384;

/// Masters that share the slots evenly, each with a replica if requested.
pub(crate) struct Cluster {
    pub(crate) masters: Vec<Server>,
    pub(crate) replicas: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start(masters: usize, replicas: bool) -> Self {
        let masters: Vec<Server> = (0..masters).map(|_| member(&[])).collect();
        let replicas = (0..if replicas { masters.len() } else { 0 }).map(|_| member(&[]));
        let replicas = replicas.collect();
        Self::of(masters, replicas)
    }

    /// Three masters and their replicas. All but the first master are far from their clients. The URL lists the near
    /// one first.
    pub(crate) fn with_one_near() -> (Self, String) {
        let (mut all, mut hosts) = (vec![member(&[])], Vec::new());
        hosts.push(format!("127.0.0.1:{}", all[0].port));
        for _ in 0..5 {
            let port = member_port();
            let proxy = Proxy::to(port);
            proxy.set(Mode::Delay);
            hosts.push(format!("127.0.0.1:{}", proxy.port));
            all.push(member_at(port, &["--cluster-announce-port", &proxy.port.to_string()]));
        }
        hosts.truncate(3);
        let replicas = all.split_off(3);
        (Self::of(all, replicas), format!("redis+cluster://{}", hosts.join(",")))
    }

    /// Masters that announce other ports, at which none of them listens. Returns the announced ports too.
    pub(crate) fn behind_nat(masters: usize) -> (Self, Vec<u16>) {
        let announced: Vec<u16> = (0..masters).map(|_| free_port()).collect();
        let announcing =
            |port: &u16| member(&["--cluster-announce-port", port.to_string().as_str()]);
        (Self::of(announced.iter().map(announcing).collect(), Vec::new()), announced)
    }

    fn of(masters: Vec<Server>, replicas: Vec<Server>) -> Self {
        for (at, master) in masters.iter().enumerate() {
            add_slots(master, at * SLOTS / masters.len()..(at + 1) * SLOTS / masters.len());
            assert_eq!(master.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)), "+OK");
        }
        for other in masters[1..].iter().chain(&replicas) {
            assert_eq!(masters[0].ask(&format!("CLUSTER MEET 127.0.0.1 {}", other.port)), "+OK");
        }
        let cluster = Self { masters, replicas };
        cluster.until("all know all", |server| {
            let known = cluster.masters.len() + cluster.replicas.len();
            server.ask("CLUSTER INFO") == "cluster_state:ok"
                && server.cluster_info("cluster_known_nodes") == known.to_string()
        });
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let id = master.ask("CLUSTER MYID");
            assert_eq!(replica.ask(&format!("CLUSTER REPLICATE {id}")), "+OK");
        }
        let up = |server: &Server| server.info("replication", "master_link_status");
        wait(|| cluster.replicas.iter().all(|replica| up(replica).as_deref() == Some("up")));
        // Every server must know the candidate for a failover. Otherwise it receives no votes.
        cluster.until("all know the replicas", |server| {
            server.text("CLUSTER NODES").matches(" slave ").count()
                + server.text("CLUSTER NODES").matches("myself,slave").count()
                == cluster.replicas.len()
        });
        cluster
    }

    fn until(&self, what: &str, ready: impl Fn(&Server) -> bool) {
        let all = || self.masters.iter().chain(&self.replicas).all(&ready);
        eventually_blocking(what, all);
    }

    /// A URL with all masters as seeds.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> =
            self.masters.iter().map(|master| format!("127.0.0.1:{}", master.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Takes a slot from its owner, so that no master serves any slot.
    pub(crate) fn take_down(&self, slot: u16) {
        for master in &self.masters {
            assert_eq!(master.ask(&format!("CLUSTER DELSLOTS {slot}")), "+OK");
        }
        let down = |master: &Server| master.ask("CLUSTER INFO") == "cluster_state:fail";
        wait(|| self.masters.iter().all(down));
    }

    /// Returns the slot to the master, so that all slots are served again.
    pub(crate) fn bring_up(&self, slot: u16, master: usize) {
        assert_eq!(self.masters[master].ask(&format!("CLUSTER ADDSLOTS {slot}")), "+OK");
        self.until("the cluster is up", |server| server.ask("CLUSTER INFO") == "cluster_state:ok");
    }

    /// How many commands were sent to its masters so far, including the refused ones.
    pub(crate) fn commands(&self) -> u64 {
        let counts = |line: &str| -> u64 {
            let fields = line.split([':', ',']).filter_map(|field| {
                field.strip_prefix("calls=").or(field.strip_prefix("rejected_calls="))
            });
            fields.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
        };
        let of =
            |master: &Server| -> u64 { master.text("INFO commandstats").lines().map(counts).sum() };
        self.masters.iter().map(of).sum()
    }

    /// The index of the master that owns the key's slot.
    pub(crate) fn owner_of(&self, key: &str) -> usize {
        let has = |master: &Server| !master.ask(&format!("GET {key}")).starts_with("-MOVED");
        self.masters.iter().position(has).expect("a master of this slot")
    }

    /// Begins to move the slot of a key. Returns the slot and the name of the server that gets it.
    pub(crate) fn begin_move(&self, key: &str, to: usize) -> (String, String) {
        let (from, to) = (&self.masters[self.owner_of(key)], &self.masters[to]);
        let slot = from.ask(&format!("CLUSTER KEYSLOT {key}")).split_off(1);
        let (source, target) = (from.ask("CLUSTER MYID"), to.ask("CLUSTER MYID"));
        assert_eq!(to.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}")), "+OK");
        assert_eq!(from.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {target}")), "+OK");
        (slot, target)
    }

    /// Moves the slot of a key with its data, as `redis-cli --cluster reshard` does.
    pub(crate) fn move_slot(&self, key: &str, to: usize) {
        let from = &self.masters[self.owner_of(key)];
        if from.port == self.masters[to].port {
            return;
        }
        let (slot, target) = self.begin_move(key, to);
        let to = &self.masters[to];
        loop {
            let listed = from.text(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
            let keys: Vec<&str> =
                listed.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
            if keys.is_empty() {
                break;
            }
            let keys = keys.join(" ");
            from.ask(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port));
        }
        for server in [to, from].into_iter().chain(&self.masters) {
            assert_eq!(server.ask(&format!("CLUSTER SETSLOT {slot} NODE {target}")), "+OK");
        }
    }
}

/// Waits for a condition for as long as a busy machine may need.
pub(crate) fn wait(ready: impl Fn() -> bool) {
    eventually_blocking("the cluster is ready", ready);
}

/// A single server that is a whole cluster.
pub(crate) fn alone(extra: &[&str]) -> Server {
    let server = member(extra);
    add_slots(&server, 0..SLOTS);
    wait(|| server.ask("CLUSTER INFO") == "cluster_state:ok");
    server
}

/// Uses `ADDSLOTS`, which Redis 6.2 supports too, in pieces that fit a line.
fn add_slots(server: &Server, slots: Range<usize>) {
    for piece in slots.collect::<Vec<_>>().chunks(4096) {
        let slots: Vec<String> = piece.iter().map(ToString::to_string).collect();
        assert_eq!(server.ask(&format!("CLUSTER ADDSLOTS {}", slots.join(" "))), "+OK");
    }
}

/// A server of a cluster.
pub(crate) fn member(extra: &[&str]) -> Server {
    member_at(member_port(), extra)
}

/// The servers of a cluster connect to each other at their port plus 10,000. Redis 6.2 cannot change that offset.
fn member_port() -> u16 {
    let bus_too = |port: &u16| {
        port.checked_add(10_000).is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok())
    };
    std::iter::repeat_with(free_port).find(bus_too).unwrap()
}

fn member_at(port: u16, extra: &[&str]) -> Server {
    let fixed = ["--cluster-enabled", "yes"];
    let soon = ["--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0"];
    Server::at(port, &[&fixed[..], &soon, extra].concat())
}
