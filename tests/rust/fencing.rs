//! Fencing tokens are strictly increasing over one node and over a quorum, regardless of the clients' clocks.

use std::sync::Arc;
use std::time::Duration;

use redlock::Redlock;
use redlock::testing::{Clock, Instant, Sleep, SystemClock};

use crate::support::{Server, client, millis, servers};

/// The system's clock with a wall clock that is off by some hours.
struct SkewedClock(i64);

impl Clock for SkewedClock {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros().saturating_add_signed(self.0 * 3_600_000_000)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(at)
    }
}

fn skewed(nodes: &[Server], hours: i64) -> Redlock {
    let builder = Redlock::builder(nodes.iter().map(Server::url)).restart_guard(Duration::ZERO);
    builder.clock(Arc::new(SkewedClock(hours))).build().unwrap()
}

async fn assert_tokens_increase(clients: Vec<Redlock>, rounds: usize) {
    let mut last = 0;
    for round in 0..rounds {
        let redlock = &clients[round % clients.len()];
        let lock = redlock.lock("job").fencing(true).wait(millis(10_000));
        let lease = lock.acquire().await.unwrap();
        let token = lease.fencing_token().unwrap();
        assert!(token > last, "{token} after {last} in round {round}");
        assert!(token < 1 << 53, "a JavaScript number must hold it");
        last = token;
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn tokens_increase_with_clocks_hours_apart() {
    let one = servers(1);
    assert_tokens_increase(vec![skewed(&one, 0), skewed(&one, 7), skewed(&one, -7)], 60).await;
    let five = servers(5);
    assert_tokens_increase(vec![skewed(&five, -3), skewed(&five, 0), skewed(&five, 9)], 60).await;
}

#[tokio::test]
async fn tokens_increase_with_changing_dead_minorities() {
    let nodes = servers(5);
    let redlock = client(&nodes);
    let lock = redlock.lock("job").ttl(millis(2000)).fencing(true).wait(millis(20_000));
    let mut last = 0;
    for round in 0..10 {
        let dead = [&nodes[round % 5], &nodes[(round + 1) % 5]];
        dead.iter().for_each(|node| node.signal(libc::SIGSTOP));
        let lease = lock.acquire().await.unwrap();
        let token = lease.fencing_token().unwrap();
        dead.iter().for_each(|node| node.signal(libc::SIGCONT));
        assert!(token > last, "{token} after {last} in round {round}");
        last = token;
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn disagreeing_quorum_stores_the_largest_token_first() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let far = SystemClock.wall_micros() + 3_600_000_000;
    nodes[0].ask(&format!("SET {{lock:job}}:fence {far}"));
    let lease = redlock.lock("job").fencing(true).acquire().await.unwrap();
    let token = lease.fencing_token().unwrap();
    let stored = nodes.iter().filter(|node| {
        node.ask("GET {lock:job}:fence").parse().is_ok_and(|stored: u64| stored >= token)
    });
    assert!(stored.count() >= 2);
    lease.release().await.unwrap();
    let next = redlock.lock("job").fencing(true).acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);
}

#[tokio::test]
async fn fence_key_outlives_the_lock_and_keeps_every_digit() {
    let server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").fencing(true).acquire().await.unwrap();
    let token = lease.fencing_token().unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.ask("GET {lock:job}:fence"), token.to_string());
    let left: i64 = server.ask("PTTL {lock:job}:fence").trim_start_matches(':').parse().unwrap();
    assert!((590_000..=606_000).contains(&left), "{left}");
}

#[tokio::test]
async fn several_names_share_the_largest_token_under_each() {
    let server = Server::start();
    let redlock = client([&server]);
    let far = SystemClock.wall_micros() + 3_600_000_000;
    server.ask(&format!("SET {{lock:b}}:fence {far}"));
    let lease = redlock.lock(["a", "b"]).fencing(true).acquire().await.unwrap();
    assert_eq!(lease.fencing_token().unwrap(), far + 1);
    lease.release().await.unwrap();
    let lease = redlock.lock("a").fencing(true).acquire().await.unwrap();
    assert!(lease.fencing_token().unwrap() > far + 1);
}

#[tokio::test]
async fn impossible_stored_token_is_an_error_of_its_node() {
    let nodes = crate::support::servers(3);
    let redlock = crate::support::client(&nodes);
    let next = async || {
        let lease = redlock.lock("job").fencing(true).acquire().await.unwrap();
        let token = lease.fencing_token().unwrap();
        lease.release().await.unwrap();
        token
    };
    let mut last = next().await;
    for set in [
        "SET {lock:job}:fence 1152921504606846976",
        "SET {lock:job}:fence 9007199254740993",
        "SET {lock:job}:fence 18446744073709551615",
        "SET {lock:job}:fence 9007199254740991",
        "SET {lock:job}:fence -1",
        "SET {lock:job}:fence 1e300",
        "SET {lock:job}:fence nonsense",
    ] {
        nodes[0].ask(set);
        for _ in 0..5 {
            let token = next().await;
            assert!(token > last && token < 1 << 53, "{set}: {token} after {last}");
            last = token;
        }
        for honest in &nodes[1..] {
            let kept: u64 = honest.ask("GET {lock:job}:fence").parse().unwrap();
            assert!(kept <= last + 1, "{set}: {kept} reached an honest node");
        }
        assert_eq!(nodes[0].ask("EXISTS lock:job"), ":0", "nothing is written beside it");
    }
    // Over that node alone, the error says what to do. Afterwards it works.
    let alone = crate::support::client(&nodes[..1]);
    let lock = alone.lock("job").fencing(true).wait(std::time::Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), redlock::ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("the page Fencing tokens#repair of the documentation"),
        "{error}"
    );
    nodes[0].ask(&format!("SET {{lock:job}}:fence {last}"));
    let lease = lock.acquire().await.unwrap();
    assert!(lease.fencing_token().unwrap() > last);
    lease.release().await.unwrap();
}
