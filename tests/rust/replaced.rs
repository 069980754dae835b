//! A node of a quorum whose server is replaced, as behind a proxy or after a failover.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use redlock::ErrorKind;
use redlock::testing::{Clock, Instant, Sleep, SystemClock};

use crate::support::{Gateway, Verdict, builder, servers};

/// A clock that stands still at this number of seconds.
#[derive(Clone, Default)]
struct StoppedClock(Arc<AtomicU64>);

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        Instant::from_start(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    /// Takes the real time, so that a retry continues. It does not advance the clock.
    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(SystemClock.now() + at.since(self.now()))
    }
}

/// What each server reports. All have run for long, so the replacement is not a restart.
const FIRST: &str = "$42\r\nrun_id:one\r\nuptime_in_seconds:1000000000\r\n\r\n";
const SECOND: &str = "$42\r\nrun_id:two\r\nuptime_in_seconds:1000000000\r\n\r\n";
const OTHERS: [&str; 2] = [
    "$42\r\nrun_id:six\r\nuptime_in_seconds:1000000000\r\n\r\n",
    "$42\r\nrun_id:ten\r\nuptime_in_seconds:1000000000\r\n\r\n",
];

/// Other clients may still use the previous server. If both counted, the node would vote twice.
#[tokio::test]
async fn replacement_confirms_no_lease_at_first() {
    let mut nodes = servers(3);
    let replaced = Arc::new(AtomicBool::new(false));
    let gateway = |at: usize| {
        let replaced = Arc::clone(&replaced);
        Gateway::to(nodes[at].port, move |words, _| match (&*words[0], at) {
            ("INFO", 0) if replaced.load(Ordering::SeqCst) => Verdict::Reply(SECOND),
            (command, _) => old_server(at, command),
        })
    };
    let gateways = [gateway(0), gateway(1), gateway(2)];
    let clock = StoppedClock::default();
    let redlock = builder(gateways.iter().map(Gateway::url)).clock(Arc::new(clock.clone()));
    let redlock = redlock.build().unwrap();
    let minute = Duration::from_secs(60);
    // Opens all connections. The vote of one that is late would not be sent after the grant.
    let holders = redlock.lock("job").inspect().await.unwrap();
    assert!(holders.nodes.iter().all(|node| node.error.is_none()), "{holders:?}");
    let lease = redlock.lock("job").ttl(minute).acquire().await.unwrap();
    nodes[1].kill();
    replaced.store(true, Ordering::SeqCst);
    nodes[0].ask("CLIENT KILL TYPE normal");
    // Until the client has connected again, the node fails for another reason.
    loop {
        let error = lease.extend(minute).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let why = error.nodes()[0].error.clone().unwrap_or_default();
        if why.contains("it replaced another server") {
            break;
        }
    }
    assert!(lease.is_held());
    clock.0.store(2, Ordering::SeqCst);
    lease.extend(minute).await.unwrap();
}

/// Something that happens once, and what waits for it.
#[derive(Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn happened(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |happened| !*happened).unwrap());
    }
}

/// The events of a round: the first node gets its vote, and the lease is granted.
#[derive(Default)]
struct Round {
    voted: Event,
    granted: Event,
    /// The number of votes at the first node.
    votes: AtomicU64,
}

impl Round {
    /// The last server connects, in a second, after the first one has its vote. The second one never replies to a vote.
    fn judge(&self, at: usize, words: &[String], clock: &StoppedClock) -> Verdict {
        // Only votes have the TTL.
        let vote = words.iter().any(|word| word == "60000");
        match (&*words[0], at) {
            (_, 0) if vote => {
                self.votes.fetch_add(1, Ordering::SeqCst);
                self.voted.happened();
            }
            (_, 1) if vote => self.granted.wait(),
            ("HELLO", 2) => {
                self.voted.wait();
                clock.0.store(1, Ordering::SeqCst);
            }
            _ => {}
        }
        old_server(at, &words[0])
    }
}

/// Services of one sentinel, which has seen each primary for an hour.
fn services(primaries: &[Gateway], sentinel: u16) -> Vec<String> {
    let count = primaries.len();
    let port = |one: &Gateway| one.address()["127.0.0.1:".len()..].to_owned();
    let ports: Vec<_> = primaries.iter().map(port).collect();
    let sentinel = Gateway::to(sentinel, move |words, _| {
        let Some(service) = words.get(2) else { return Verdict::Pass };
        let number: Option<usize> = service.strip_prefix("service-").and_then(|at| at.parse().ok());
        let Some(number) = number else { return Verdict::Pass };
        let port = &ports[number];
        if words[1] != "MASTER" {
            return Verdict::Reply(list(&["127.0.0.1", port]));
        }
        let age = ["config-epoch", "1", "role-reported-time", "3600000"];
        Verdict::Reply(list(&[&["ip", "127.0.0.1", "port", port], &age[..]].concat()))
    });
    let url = |at| format!("redis+sentinel://{}/service-{at}", sentinel.address());
    (0..count).map(url).collect()
}

/// Each server reports that it has run for long.
fn old_server(at: usize, command: &str) -> Verdict {
    let about = [FIRST, OTHERS[0], OTHERS[1]][at];
    if command == "INFO" { Verdict::Reply(about) } else { Verdict::Pass }
}

/// A reply of these words.
fn list(words: &[&str]) -> &'static str {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let parts: Vec<_> = words.collect();
    format!("*{}\r\n{}", parts.len(), parts.concat()).leak()
}

/// A connection that opens during the round is no replacement. The client would need a second round.
#[tokio::test]
async fn vote_over_a_new_connection_to_an_old_primary_counts() {
    let (nodes, clock, round) = (servers(3), StoppedClock::default(), Arc::<Round>::default());
    let primary = |at: usize| {
        let (round, clock) = (Arc::clone(&round), clock.clone());
        Gateway::to(nodes[at].port, move |words, _| round.judge(at, words, &clock))
    };
    let urls = services(&[primary(0), primary(1), primary(2)], nodes[0].port);
    let redlock = builder(urls).clock(Arc::new(clock.clone())).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    round.granted.happened();
    assert_eq!(round.votes.load(Ordering::SeqCst), 1);
    lease.release().await.unwrap();
}
