//! Servers that are not primaries take no votes, even if they accept writes, as active replicas of some servers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redlock::{ErrorKind, Redlock};

use crate::support::replicas::pair;
use crate::support::{Gateway, Server, Verdict, builder, millis};

/// What an active replica reports at `HELLO` and in `INFO`.
const HELLO: &str = "%3\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$14\r\nactive-replica\r\n";
const INFO: &str = "$21\r\nrole:active-replica\r\n\r\n";

/// A server that reports another role than that of a primary, and runs every command.
struct ActiveReplica {
    server: Server,
    gateway: Gateway,
    demoted: Arc<AtomicBool>,
    /// The number of commands of locks.
    votes: Arc<AtomicUsize>,
}

impl ActiveReplica {
    /// `hello` means that it supports `HELLO`.
    fn start(hello: bool) -> Self {
        let (server, demoted) = (Server::start(), Arc::new(AtomicBool::new(true)));
        let votes = Arc::<AtomicUsize>::default();
        let (seen, is_demoted) = (Arc::clone(&votes), Arc::clone(&demoted));
        let gateway = Gateway::to(server.port, move |words, _| {
            let is_vote = words.iter().any(|word| word.starts_with("lock:job"));
            seen.fetch_add(usize::from(is_vote), Ordering::SeqCst);
            let is_demoted = is_demoted.load(Ordering::SeqCst);
            match &*words[0] {
                "HELLO" if !hello => Verdict::Reply("-ERR unknown command 'HELLO'\r\n"),
                "HELLO" if is_demoted => Verdict::Reply(HELLO),
                "INFO" if is_demoted && words[1] == "replication" => Verdict::Reply(INFO),
                _ => Verdict::Pass,
            }
        });
        Self { server, gateway, demoted, votes }
    }

    fn client(&self) -> Redlock {
        let builder = builder([self.gateway.url()]).unavailable_after(millis(600));
        builder.build().unwrap()
    }
}

async fn gets_no_vote_until_it_is_a_primary(replica: ActiveReplica) {
    let redlock = replica.client();
    let lock = redlock.lock("job");
    let unavailable = |error: redlock::Error| {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let cause = error.nodes()[0].error.clone().unwrap_or_default();
        assert!(cause.contains("is a replica (its role is active-replica)"), "{cause}");
    };
    unavailable(lock.try_acquire().await.unwrap_err());
    unavailable(lock.clone().wait(millis(300)).acquire().await.unwrap_err());
    // Without `wait`, the acquire ends after `unavailable_after`.
    unavailable(lock.acquire().await.unwrap_err());
    unavailable(lock.attach("0123456789abcdef0123456789abcdef").await.map(drop).unwrap_err());
    assert_eq!(replica.votes.load(Ordering::SeqCst), 0);
    assert_eq!(replica.server.ask("DBSIZE"), ":0");
    // The end of the outage is found without a new call.
    let waiting = tokio::spawn(lock.clone().wait(millis(60_000)).acquire());
    replica.demoted.store(false, Ordering::SeqCst);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn active_replica_gets_no_vote() {
    gets_no_vote_until_it_is_a_primary(ActiveReplica::start(true)).await;
}

#[tokio::test]
async fn active_replica_without_hello_gets_no_vote() {
    gets_no_vote_until_it_is_a_primary(ActiveReplica::start(false)).await;
}

/// Whose sections of `INFO` end without a line break, as those of jedis-mock.
#[tokio::test]
async fn sections_without_a_last_line_break_are_read_one_by_one() {
    let server = Server::start();
    let gateway = Gateway::to(server.port, |words, _| match &*words[0] {
        "HELLO" => Verdict::Reply("-ERR unknown command 'HELLO'\r\n"),
        "INFO" => Verdict::Reply("$18\r\n# Info\nrole:master\r\n"),
        _ => Verdict::Pass,
    });
    let redlock = builder([gateway.url()]).unavailable_after(millis(600)).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
}

/// A primary and its active replica, each behind the URL of a client: only one client gets the lock.
#[tokio::test]
async fn client_of_an_active_replica_is_not_a_second_holder() {
    let replica = ActiveReplica::start(true);
    let primary = Server::start();
    let first = builder([primary.url()]).build().unwrap();
    let lease = first.lock("job").acquire().await.unwrap();
    let second = replica.client();
    assert!(second.lock("job").acquire().await.is_err());
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

/// Over each protocol, and without a permission that reports the role.
#[tokio::test]
async fn replica_is_named_at_connect() {
    let (_primary, replica) = pair();
    replica.ask("ACL SETUSER app on >s3cret-word ~* &* +@all -info");
    let address = format!("127.0.0.1:{}", replica.port);
    for url in [
        format!("redis://{address}"),
        format!("redis://{address}?protocol=2"),
        format!("redis://app:s3cret-word@{address}?protocol=2"),
    ] {
        let redlock = builder([&url]).build().unwrap();
        for _ in 0..3 {
            let error = redlock.lock("job").try_acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let cause = error.nodes()[0].error.clone().unwrap_or_default();
            assert!(cause.contains("is a replica"), "{url}: {cause}");
        }
        assert_eq!(redlock.stats().reconnects, 0);
    }
}
