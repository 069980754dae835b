//! `redlock doctor` finds each misconfiguration of a real server, and names its fix. A healthy set has no finding.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use super::command::{outcome, redlock};
use super::page::{commands, comparable};
use crate::support::{
    Cluster, Gateway, Mode, Proxy, Sentinels, Server, Verdict, eventually_blocking, spawn_helper,
};
use crate::tidy::root;

/// A server of which no restart loses a lock.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn durable() -> Server {
    Server::with(&DURABLE)
}

fn set() -> Vec<Server> {
    (0..3).map(|_| durable()).collect()
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

/// A finding: severity and code, and a part of what is wrong or of its fix.
type Expected<'a> = (&'a str, &'a str, &'a str);

/// Without `CONFIG`, it is unknown what a restart loses.
const UNKNOWN_LOSS: Expected = ("note", "persistence", "unless appendfsync is always");

/// What each set of nodes without enough votes has too.
const NO_QUORUM: Expected = ("error", "no-quorum", "nodes would grant a lock, and");

/// For replies of servers that compete for a busy machine.
const PATIENT: [&str; 2] = ["--node-timeout", "5"];

/// Runs the doctor. Checks that these are all findings, apart from that about a single node.
fn expect(urls: &[String], options: &[&str], expected: &[Expected]) {
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let patient: &[&str] = if options.contains(&PATIENT[0]) { &[] } else { &PATIENT };
    let outcome = outcome(redlock(&[&["doctor", "--json"], patient, options, &urls].concat()));
    let printed = &outcome.stdout;
    let printed: Value =
        serde_json::from_str(printed).unwrap_or_else(|_| panic!("{printed}{}", outcome.stderr));
    let findings: Vec<_> = printed["findings"].as_array().unwrap().iter().collect();
    let findings: Vec<_> =
        findings.into_iter().filter(|finding| finding["code"] != "one-node").collect();
    let is = |finding: &Value, (severity, code, part): &Expected| {
        let text =
            ["server", "what", "why", "fix"].map(|field| finding[field].to_string()).join(" ");
        finding["severity"] == *severity && finding["code"] == *code && text.contains(part)
    };
    for one in expected {
        assert!(findings.iter().any(|finding| is(finding, one)), "no {one:?} in {printed:#}");
    }
    let page = fs::read_to_string(root().join("docs/operate/doctor.md")).unwrap();
    for finding in findings {
        let code = finding["code"].as_str().unwrap();
        assert!(page.contains(&format!("`{code}`")), "{code} is not on the page");
        assert!(expected.iter().any(|one| is(finding, one)), "unexpected {finding:#}");
    }
    let worst = |severity| expected.iter().any(|one| one.0 == severity);
    let status = if worst("error") { 2 } else { i32::from(worst("warning")) };
    assert_eq!(outcome.status, status, "{printed:#}");
}

/// A server with these options, or after these commands, has this finding.
fn expect_of(extra: &[&str], commands: &[&str], expected: &[Expected]) {
    let server = Server::with(&[&DURABLE[..], extra].concat());
    commands.iter().for_each(|command| assert_eq!(server.ask(command), "+OK", "{command}"));
    expect(&[url(&server)], &[], expected);
}

#[test]
fn healthy_set_has_no_finding() {
    let nodes = set();
    let urls: Vec<_> = nodes.iter().map(url).collect();
    expect(&urls, &["--restart-guard", "0"], &[]);
    let least: Vec<_> = nodes
        .iter()
        .map(|node| format!("redis://least:s3cret-word@127.0.0.1:{}", node.port))
        .collect();
    let words =
        ["doctor", PATIENT[0], PATIENT[1], "--restart-guard", "0", &least[0], &least[1], &least[2]];
    let least = outcome(redlock(&words));
    assert_eq!(least.status, 0, "{}", least.stdout);
    assert!(least.stdout.contains("\n0 errors, 0 warnings, "), "{}", least.stdout);
    assert!(!least.stdout.contains("s3cret"), "{}", least.stdout);
    assert!(nodes.iter().all(|node| node.ask("DBSIZE") == ":0"));
}

#[test]
fn loss_of_data_is_found() {
    let server = Server::start();
    expect(&[url(&server)], &[], &[("warning", "persistence", "loses all locks")]);
    let snapshots = Server::with(&["--save", "3600", "1"]);
    let expected = ("warning", "persistence", "since its last snapshot");
    expect(&[url(&snapshots)], &[], &[expected]);
    let every_second = Server::with(&["--appendonly", "yes"]);
    let expected = ("note", "persistence", "appendfsync always");
    expect(&[url(&every_second)], &[], &[expected]);
    expect_of(
        &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"],
        &[],
        &[("error", "eviction", "maxmemory-policy noeviction")],
    );
    expect_of(
        &["--maxmemory-policy", "volatile-ttl"],
        &[],
        &[("note", "eviction", "volatile-ttl")],
    );
    expect_of(
        &[],
        &["CONFIG SET maxmemory 1"],
        &[("error", "memory", "Raise maxmemory"), NO_QUORUM],
    );
}

#[test]
fn wrong_set_of_nodes_is_found() {
    let nodes = set();
    let urls: Vec<_> = nodes.iter().map(url).collect();
    let guarded = [
        ("warning", "guarded", "a quorum grants locks in"),
        ("warning", "restarted", "it has restarted"),
    ];
    expect(&urls, &[], &guarded);
    let options = ["--restart-guard", "0"];
    expect(&urls[..2], &options, &[("warning", "even", "Use 1 or 3 nodes")]);
    let twice = [urls[0].clone(), urls[1].clone(), format!("redis://localhost:{}", nodes[0].port)];
    expect(&twice, &options, &[("error", "same-server", "List each server once")]);
    let unreachable = ("error", "unreachable", "Start the server");
    let nowhere = ["redis://127.0.0.1:1".to_owned(), "redis://127.0.0.1:2".to_owned()];
    expect(&[&urls[..2], &nowhere[..1]].concat(), &options, &[unreachable]);
    expect(&[&urls[..1], &nowhere[..]].concat(), &options, &[unreachable, NO_QUORUM]);
    // Its clock is that of another century.
    let wrong_clock = Gateway::to(nodes[2].port, |words, _| match &*words[0] {
        "TIME" => Verdict::Reply("*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n"),
        _ => Verdict::Pass,
    });
    let urls = [urls[0].clone(), urls[1].clone(), wrong_clock.url()];
    // It does not pass on notifications either.
    let expected =
        [("warning", "clocks", "Synchronize"), ("warning", "unnotified", "CLIENT TRACKING")];
    expect(&urls, &options, &expected);
}

#[test]
fn replicas_are_found() {
    let primary = durable();
    let replica = Server::replica_of(&primary);
    let address = format!("127.0.0.1:{}", primary.port);
    let expected =
        [("error", "replica", &*address), ("warning", "persistence", "loses all"), NO_QUORUM];
    expect(&[url(&replica)], &[], &expected);
    expect(&[url(&primary)], &[], &[("note", "replicas", "--min-replicas 1")]);
    expect(&[url(&primary)], &["--min-replicas", "1"], &[]);
    let too_few = ("error", "replicas", "it has 1 replica, and --min-replicas is 2");
    let failed = ("error", "trial", "the grant reached 1 of 2 replicas");
    expect(&[url(&primary)], &["--min-replicas", "2"], &[too_few, failed]);
    assert_eq!(primary.ask("CONFIG SET min-replicas-to-write 2"), "+OK");
    let expected =
        [("error", "votes", "NOREPLICAS"), ("note", "replicas", "it has 1 replica,"), NO_QUORUM];
    expect(&[url(&primary)], &[], &expected);
}

#[test]
fn wrong_login_and_missing_rights_are_found() {
    let server = durable();
    let login = |user: &str| [format!("redis://{user}@127.0.0.1:{}", server.port)];
    let wrong = ("error", "login", "Correct user and password");
    expect(&login("least:wrong"), &[], &[wrong, NO_QUORUM]);
    for (rule, expected) in [
        ("-pexpire", vec![("error", "rights", "ACL SETUSER app +pexpire"), NO_QUORUM]),
        (
            "-client|tracking",
            vec![("warning", "notifications", "ACL SETUSER app +client|tracking")],
        ),
        ("-zadd -mget", vec![("note", "optional-rights", "ACL SETUSER app +mget +zadd")]),
        ("-config", vec![("note", "not-examined", "CONFIG GET"), UNKNOWN_LOSS]),
        ("-info", vec![("note", "not-examined", "INFO"), ("note", "optional-rights", "+info")]),
        (
            "resetkeys ~lock:*",
            vec![(
                "note",
                "optional-rights",
                "~{lock:*}:fence ~{lock:*}#* ~{lock:*}:readers ~{lock:*}:turn",
            )],
        ),
        (
            "resetkeys ~other:*",
            vec![
                ("error", "rights", "ACL SETUSER app ~lock:*"),
                NO_QUORUM,
                ("note", "optional-rights", "fencing"),
            ],
        ),
    ] {
        let user = format!("ACL SETUSER app reset on >s3cret-word ~* &* +@all {rule}");
        assert_eq!(server.ask(&user), "+OK");
        expect(&login("app:s3cret-word"), &[], &expected);
    }
    let protected = Server::with(&["--requirepass", "s3cret-word"]);
    expect(&[url(&protected)], &[], &[("error", "login", "Add user and password"), NO_QUORUM]);
}

#[test]
fn wrong_connections_are_found() {
    expect_of(
        &[],
        &["CONFIG SET timeout 5"],
        &[("warning", "idle-timeout", "CONFIG SET timeout 0")],
    );
    let server = durable();
    let resp2 = format!("{}?protocol=2", url(&server));
    expect(&[resp2], &[], &[("warning", "notifications", "Remove protocol=2")]);
    assert_eq!(server.ask("CONFIG SET maxclients 50"), "+OK");
    let open: Vec<_> =
        (0..42).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    let count = || server.info("clients", "connected_clients").unwrap().parse::<usize>().unwrap();
    eventually_blocking("they count", || count() >= 42);
    expect(&[url(&server)], &[], &[("warning", "connections", "Raise maxclients")]);
    // Those of the doctor are too many, but not those of a program.
    for free in [2, 4] {
        assert_eq!(server.ask(&format!("CONFIG SET maxclients {}", 42 + free)), "+OK");
        eventually_blocking("only those and this one are open", || count() == 43);
        expect(&[url(&server)], &[], &[("warning", "connections", "Raise maxclients")]);
    }
    // Refuses each new connection, also before the server has closed that of this command.
    assert_eq!(server.ask("CONFIG SET maxclients 42"), "+OK");
    expect(&[url(&server)], &[], &[("error", "connections", "Raise maxclients"), NO_QUORUM]);
    drop(open);
    let far = durable();
    let slow = Proxy::to(far.port);
    slow.set(Mode::LongDelay);
    expect(&[slow.url()], &["--node-timeout", "1"], &[("warning", "latency", "a nearer server")]);
}

#[test]
fn servers_that_do_not_reply_are_found() {
    let server = durable();
    server.signal(libc::SIGSTOP);
    let expected = [("error", "unreachable", "not frozen"), NO_QUORUM];
    expect(&[url(&server)], &["--connect-timeout", "2", "--node-timeout", "1"], &expected);
    let loading = Gateway::to(server.port, |_, _| {
        Verdict::Reply("-LOADING Redis is loading the dataset in memory\r\n")
    });
    server.signal(libc::SIGCONT);
    let expected = [("error", "loading", "Wait until it has loaded"), NO_QUORUM];
    expect(&[loading.url()], &["--connect-timeout", "2"], &expected);
    let busy = Gateway::to(server.port, |words, _| match &*words[0] {
        "HELLO" => Verdict::Pass,
        _ => Verdict::Reply("-BUSY Redis is busy running a script\r\n"),
    });
    expect(&[busy.url()], &["--connect-timeout", "2"], &[("error", "votes", "BUSY"), NO_QUORUM]);
}

#[test]
fn wrong_servers_are_found() {
    expect_of(&["--cluster-enabled", "yes"], &[], &[("error", "votes", "+cluster://"), NO_QUORUM]);
    expect_of(
        &["--rename-command", "CONFIG", ""],
        &[],
        &[("note", "not-examined", "CONFIG GET"), UNKNOWN_LOSS],
    );
    let hidden =
        [("warning", "proxy", "CLIENT KILL"), ("warning", "notifications", "CLIENT TRACKING")];
    expect_of(&["--rename-command", "CLIENT", ""], &[], &[hidden[0], hidden[1]]);
    let server = durable();
    let twemproxy = Gateway::twemproxy(server.port);
    let expected =
        [("warning", "proxy", "the server itself"), ("warning", "unnotified", "CLIENT TRACKING")];
    expect(&[twemproxy.url()], &[], &expected);
    let old = Gateway::to(server.port, |words, _| match &*words[0] {
        "INFO" => Verdict::Reply("$21\r\nredis_version:6.0.16\n\r\n"),
        _ => Verdict::Pass,
    });
    let unnotified = ("warning", "unnotified", "CLIENT TRACKING");
    expect(&[old.url()], &[], &[("warning", "version", "Upgrade to Redis 6.2"), unnotified]);
    let full_disk = Gateway::to(server.port, |words, _| match &*words[0] {
        "INFO" => Verdict::Reply("$26\r\nrdb_last_bgsave_status:err\r\n"),
        _ => Verdict::Pass,
    });
    expect(&[full_disk.url()], &[], &[("error", "disk", "free space"), unnotified]);
}

/// Each connection leads to another server, as that of a load balancer.
#[test]
fn several_servers_at_one_address_are_found() {
    let servers: Vec<_> = (0..4).map(|_| durable()).collect();
    let ports: Vec<_> = servers.iter().map(|server| server.port).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let balancer = format!("redis://{}", listener.local_addr().unwrap());
    spawn_helper(move || {
        for (client, port) in listener.incoming().flatten().zip(ports.into_iter().cycle()) {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let mut from = BufReader::new(from);
                    while let Ok(bytes) = from.fill_buf().map(<[u8]>::to_vec)
                        && !bytes.is_empty()
                    {
                        let _ = std::io::Write::write_all(&mut to, &bytes);
                        from.consume(bytes.len());
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    let outcome = outcome(redlock(&["doctor", &balancer]));
    assert_eq!(outcome.status, 2, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("reached different servers"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("fix: Connect to one server"), "{}", outcome.stdout);
}

/// The doctor showed that the servers of a cluster are unknown, or advised to look for a firewall.
#[test]
fn wrong_urls_are_found() {
    let server = durable();
    let sentinels = Sentinels::reporting(server.port);
    let (data, sentinel) = (server.port, sentinels.ports[0]);
    for (url, code, part) in [
        (format!("redis+cluster://least:wrong@127.0.0.1:{data}"), "login", "WRONGPASS"),
        (format!("redis+cluster://127.0.0.1:{data}"), "topology", "standalone"),
        (format!("redis+cluster://127.0.0.1:{sentinel}"), "topology", "redis+sentinel://"),
        ("redis+cluster://127.0.0.1:1".to_owned(), "unreachable", "Start the server"),
        (format!("rediss://127.0.0.1:{data}"), "tls", "Write rediss:// for a TLS port"),
        (format!("redis+sentinel://127.0.0.1:{data}/service-0"), "topology", "List sentinels"),
        (format!("redis+sentinel://127.0.0.1:{sentinel}/other"), "topology", "name of the service"),
    ] {
        expect(&[url], &["--connect-timeout", "2"], &[("error", code, part), NO_QUORUM]);
    }
}

#[test]
fn example_of_the_page_has_its_output() {
    let server = Server::with(
        &[&DURABLE[..], &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]].concat(),
    );
    let page = fs::read_to_string(root().join("docs/operate/doctor.md")).unwrap();
    let [(command, expected)] = &commands(&page)[..] else { panic!("one command") };
    assert_eq!(command, "redlock doctor redis://10.0.0.7:6379");
    let printed = outcome(redlock(&["doctor", &url(&server)])).stdout;
    // `make test-servers` has others.
    assert_eq!(comparable(&printed.replace("Valkey", "Redis")), comparable(expected), "{printed}");
}

#[test]
fn servers_of_clusters_and_sentinels_are_examined() {
    let loss = ("warning", "persistence", "loses all locks");
    let cluster = Cluster::start(3, true);
    let address = |master: &Server| format!("\"127.0.0.1:{}\"", master.port);
    let addresses: Vec<_> = cluster.masters.iter().map(address).collect();
    let of_each = |(severity, code)| addresses.iter().map(move |one| (severity, code, &**one));
    let expected = [("warning", "persistence"), ("note", "replicas")].into_iter().flat_map(of_each);
    expect(&[cluster.url()], &[], &expected.collect::<Vec<_>>());
    let text = outcome(redlock(&["doctor", &cluster.url()])).stdout;
    for address in &addresses {
        let line = format!("{}: {}: a restart loses", cluster.url(), address.trim_matches('"'));
        assert!(text.contains(&line), "{text}");
    }
    let sentinels = Sentinels::start(1, 1);
    expect(&[sentinels.url(0)], &[], &[loss, ("note", "replicas", "it has 1 replica,")]);
}
