//! Facts in, findings out: the limits, and what no test sets up with a real server.

use std::collections::HashMap;
use std::time::Duration;

use super::facts::{Facts, NodeFacts, ServerFacts, Settings};
use super::findings::Severity::{self, Error, Note, Warning};
use super::findings::findings;
use super::live::Trial;
use super::rights::Need;
use super::rights::RIGHTS;

const FIELDS: [(&str, &str); 9] = [
    ("redis_version", "7.2.4"),
    ("role", "master"),
    ("run_id", "one"),
    ("maxmemory", "1000"),
    ("maxmemory_policy", "noeviction"),
    ("used_memory", "100"),
    ("aof_enabled", "1"),
    ("connected_clients", "10"),
    ("maxclients", "100"),
];

/// One healthy node.
fn healthy() -> Facts {
    let map = |pairs: &[(&'static str, &str)]| -> HashMap<_, String> {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let server = ServerFacts {
        address: "10.0.0.7:6379".to_owned(),
        resp3: true,
        info: FIELDS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        config: map(&[("appendfsync", "always"), ("save", ""), ("timeout", "0")]),
        ahead: Some(0.0),
        other_run_id: Some("one".to_owned()),
        ..ServerFacts::default()
    };
    let node = NodeFacts {
        url: "redis://10.0.0.7:6379".to_owned(),
        user: "app".to_owned(),
        latency: Some(Duration::from_millis(1)),
        ready_in: Some(Duration::ZERO),
        error: None,
        servers: Ok(vec![server]),
        trial: Some(Trial { failed: None, notified: Some(true) }),
    };
    let settings = Settings {
        ttl: Duration::from_secs(10),
        node_timeout: Duration::from_secs(1),
        patience: Duration::from_secs(5),
        guard: Duration::ZERO,
        min_replicas: 0,
        fsync: false,
        key_prefix: "lock:".to_owned(),
    };
    Facts { settings, ready_in: Some(Duration::ZERO), nodes: vec![node], trial: None }
}

/// The findings of these facts, without that about a single node.
fn codes(change: impl FnOnce(&mut Facts)) -> Vec<(Severity, &'static str)> {
    let mut facts = healthy();
    change(&mut facts);
    let found = findings(&facts);
    for one in &found {
        assert!(![&one.what, &one.why, &one.fix].iter().any(|text| text.is_empty()), "{one:?}");
    }
    let found = found.into_iter().map(|one| (one.severity, one.code));
    found.filter(|(_, code)| *code != "one-node").collect()
}

fn server(facts: &mut Facts) -> &mut ServerFacts {
    &mut facts.nodes[0].servers.as_mut().unwrap()[0]
}

/// The findings of a server with these fields of `INFO`.
fn codes_of(fields: &[(&str, &str)]) -> Vec<(Severity, &'static str)> {
    codes(|facts| {
        let set = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        server(facts).info.extend(fields.iter().map(set));
    })
}

#[test]
fn healthy_node_has_no_finding() {
    assert_eq!(codes(|_| ()), []);
}

#[test]
fn each_field_of_a_server_is_judged() {
    type Case = (&'static [(&'static str, &'static str)], &'static [(Severity, &'static str)]);
    let cases: [Case; 14] = [
        (&[("role", "slave"), ("master_host", "h"), ("master_port", "1")], &[(Error, "replica")]),
        (&[("redis_version", "6.2.0")], &[]),
        (&[("redis_version", "6.0.16")], &[(Warning, "version")]),
        (&[("redis_version", "10.0.0")], &[]),
        (&[("used_memory", "899")], &[]),
        (&[("used_memory", "900")], &[(Warning, "memory")]),
        (&[("used_memory", "1000")], &[(Error, "memory")]),
        (&[("used_memory", "1000"), ("maxmemory", "0")], &[]),
        (&[("maxmemory_policy", "volatile-lru")], &[(Error, "eviction")]),
        (&[("maxmemory_policy", "volatile-lru"), ("maxmemory", "0")], &[(Note, "eviction")]),
        (&[("connected_clients", "79")], &[]),
        (&[("connected_clients", "80")], &[(Warning, "connections")]),
        (&[("aof_last_write_status", "err")], &[(Error, "disk")]),
        (&[("run_id", "other")], &[(Error, "several-servers")]),
    ];
    for (fields, expected) in cases {
        assert_eq!(codes_of(fields), expected, "{fields:?}");
    }
}

#[test]
fn loss_at_a_restart_depends_on_log_snapshots_and_guard() {
    let of = |aof: &str, sync: &str, save: &str, guard: u64| {
        codes(|facts| {
            facts.settings.guard = Duration::from_secs(guard);
            let server = server(facts);
            server.info.insert("aof_enabled".to_owned(), aof.to_owned());
            server.config.insert("appendfsync", sync.to_owned());
            server.config.insert("save", save.to_owned());
        })
    };
    let [note, warning] = [Note, Warning].map(|severity| vec![(severity, "persistence")]);
    assert_eq!(of("1", "always", "", 0), []);
    assert_eq!(of("0", "always", "", 0), warning, "without a log, it syncs nothing");
    assert_eq!(of("1", "everysec", "", 0), note);
    assert_eq!(of("1", "no", "", 0), warning);
    assert_eq!(of("0", "everysec", "3600 1", 0), warning);
    assert_eq!(of("0", "everysec", "3600 1", 9), warning, "the guard is shorter than the TTL");
    assert_eq!(of("0", "everysec", "3600 1", 10), note);
}

#[test]
fn disk_of_each_vote_must_be_synced() {
    let of = |sync: &str, ttl: u64| {
        codes(|facts| {
            facts.settings.fsync = true;
            facts.settings.ttl = Duration::from_secs(ttl);
            server(facts).config.insert("appendfsync", sync.to_owned());
        })
    };
    assert_eq!(of("always", 10), []);
    assert_eq!(of("everysec", 10), [(Note, "sync")], "a restart loses nothing");
    assert_eq!(of("everysec", 7), [(Warning, "sync")]);
    assert_eq!(of("no", 10), [(Error, "sync")]);
}

#[test]
fn latency_is_judged_by_the_time_for_a_reply() {
    for (millis, expected) in
        [(199, vec![]), (200, vec![(Warning, "latency")]), (1000, vec![(Error, "latency")])]
    {
        let of = codes(|facts| facts.nodes[0].latency = Some(Duration::from_millis(millis)));
        assert_eq!(of, expected, "{millis}");
    }
}

#[test]
fn error_of_a_connection_has_its_fix() {
    for (error, code, fix) in [
        ("the server replied WRONGPASS (...)", "login", "Correct"),
        ("the server replied NOAUTH (the login is missing)", "login", "Add"),
        ("the server replied LOADING", "loading", "Wait"),
        ("the server replied DENIED (the server is in protected mode)", "protected", "bind"),
        ("the server replied ERR max number of clients reached", "connections", "maxclients"),
        ("cannot connect: Connection refused", "unreachable", "Start"),
        ("the certificate has expired", "tls", "certificate"),
        ("no connection within 5.000 s", "unreachable", "firewall"),
        ("the server replied BUSY Redis is busy running a script", "votes", "Follow the error"),
        ("TLS: the server does not use TLS on this port. Use its TLS port", "tls", "redis://"),
        ("the server closed it (if it uses TLS, write rediss+sentinel://)", "tls", "rediss://"),
        ("cannot connect: TLS: received fatal alert: ProtocolVersion", "tls", "TLS 1.2"),
        (
            "no connection in 5 s: the TLS handshake with h:1 (check whether",
            "unreachable",
            "frozen",
        ),
        ("its sentinels do not know the service main", "topology", "service"),
        ("(h:1: the server replied ERR unknown command 'SENTINEL')", "topology", "sentinels"),
        ("a standalone server. Use redis://host (rediss:// with TLS)", "topology", "the URL"),
        ("a Sentinel. Use redis+sentinel://host:port/service", "topology", "the URL"),
    ] {
        let mut facts = healthy();
        facts.ready_in = None;
        let node = &mut facts.nodes[0];
        (node.latency, node.ready_in, node.trial) = (None, None, None);
        node.error = Some(error.to_owned());
        node.servers = Err(error.to_owned());
        let found: Vec<_> = findings(&facts);
        let codes: Vec<_> = found.iter().map(|one| one.code).collect();
        assert_eq!(codes, ["no-quorum", code, "one-node"], "{error}");
        assert!(found[1].fix.contains(fix), "{}", found[1].fix);
    }
}

#[test]
fn error_of_the_first_connection_is_that_of_the_cluster() {
    let mut facts = healthy();
    let node = &mut facts.nodes[0];
    (node.latency, node.ready_in, node.trial) = (None, None, None);
    node.error = Some("h:1: the server replied WRONGPASS".to_owned());
    node.servers = Err("the servers of the cluster are not known yet".to_owned());
    let found = findings(&facts);
    assert!(found.iter().any(|one| one.code == "login" && one.what.contains("WRONGPASS")));
    assert!(found.iter().all(|one| one.code != "unreachable"), "{found:?}");
}

/// They count too, so programs may still have room.
#[test]
fn connections_of_the_doctor_are_no_error() {
    let error = "the server replied ERR max number of clients reached";
    let of = |used: &str, servers: Option<&str>| {
        codes(|facts| {
            server(facts).info.insert("connected_clients".to_owned(), used.to_owned());
            let failed = Some(("delete", error.to_owned()));
            facts.nodes[0].trial = Some(Trial { failed, notified: None });
            if let Some(error) = servers {
                facts.nodes[0].servers = Err(error.to_owned());
            }
        })
    };
    let [crowded, proxy] = ["connections", "proxy"].map(|code| (Warning, code));
    assert_eq!(of("100", None), [crowded]);
    assert_eq!(of("10", None), [crowded], "others have closed theirs since");
    assert_eq!(of("10", Some(error)), [crowded]);
    assert_eq!(of("10", Some("ERR unknown command")), [proxy, crowded]);
}

#[test]
fn finding_names_its_server_among_several() {
    let mut facts = healthy();
    let mut other = server(&mut facts).clone();
    other.address = "10.0.0.8:6379".to_owned();
    other.info.insert("connected_slaves".to_owned(), "1".to_owned());
    facts.nodes[0].servers.as_mut().unwrap().push(other);
    let of = |facts: &Facts| {
        let found = findings(facts).into_iter().find(|one| one.code == "replicas").unwrap();
        (found.server, found.what)
    };
    let what = "it has 1 replica, and locks do not wait for it".to_owned();
    assert_eq!(of(&facts), (Some("10.0.0.8:6379".to_owned()), what.clone()));
    facts.nodes[0].servers.as_mut().unwrap().remove(0);
    assert_eq!(of(&facts), (None, what));
}

#[test]
fn busy_server_is_not_one_that_hides_its_settings() {
    let of = |is_busy: bool| {
        codes(|facts| {
            let server = server(facts);
            (server.is_busy, server.info, server.config) =
                (is_busy, HashMap::new(), HashMap::new());
        })
    };
    assert_eq!(of(false), [(Note, "not-examined")]);
    assert_eq!(of(true), []);
}

#[test]
fn right_to_paste_has_user_and_prefix() {
    let mut facts = healthy();
    facts.settings.key_prefix = "app:".to_owned();
    server(&mut facts).denied = RIGHTS.iter().filter(|right| right.need == Need::Lock).collect();
    let found = findings(&facts);
    let expected = "ACL SETUSER app ~app:* +evalsha +script|load +get +set +del +pttl +pexpire";
    assert_eq!((found[0].code, &*found[0].fix), ("rights", expected));
    // A right of a topology that is not in use does not matter.
    server(&mut facts).denied = RIGHTS.iter().filter(|right| right.rule == "+role").collect();
    assert!(findings(&facts).iter().all(|one| one.code == "one-node"));
    facts.nodes[0].url = "redis+sentinel://10.0.0.7:26379/main".to_owned();
    assert_eq!(findings(&facts)[0].code, "rights");
}

/// The page lists the same rights, apart from those of operators.
#[test]
fn rights_are_those_of_the_page() {
    let page = include_str!("../../../tests/vectors/rights.txt").replace("lock:", "PREFIX");
    let own: Vec<_> = RIGHTS.iter().map(|right| right.rule).collect();
    for rule in page.split_whitespace().filter(|rule| rule.starts_with(['~', '+'])) {
        assert!(own.contains(&rule), "{rule}");
    }
    let only_own = ["+scan", "+config|get", "+waitaof", "+client|setinfo"];
    for rule in own {
        assert!(
            page.split_whitespace().any(|one| one == rule) || only_own.contains(&rule),
            "{rule}"
        );
    }
}

#[test]
fn clocks_are_compared_with_each_other() {
    let of = |apart: f64| {
        codes(|facts| {
            let mut other = facts.nodes[0].clone();
            let one = &mut other.servers.as_mut().unwrap()[0];
            one.ahead = Some(apart);
            one.other_run_id = Some("two".to_owned());
            one.info.insert("run_id".to_owned(), "two".to_owned());
            facts.nodes.push(other);
        })
    };
    assert_eq!(of(-0.9), [(Warning, "even")]);
    assert_eq!(of(-1.1), [(Warning, "even"), (Warning, "clocks")]);
}

#[test]
fn failed_trial_names_its_step() {
    let failed = Some(("extend", "the key is gone".to_owned()));
    let trial =
        |failed, notified| codes(|facts| facts.nodes[0].trial = Some(Trial { failed, notified }));
    assert_eq!(trial(failed, None), [(Error, "trial")]);
    assert_eq!(trial(None, Some(false)), [(Warning, "unnotified")]);
    assert_eq!(trial(None, Some(true)), []);
}
