//! Many leases or waiting callers at once delay no other one.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::Redlock;

use crate::support::{Server, client, millis};

/// The number of scripts and attempts that a server ran.
fn attempts(server: &Server) -> u64 {
    let calls = |of: &str| {
        let stats = server.info("commandstats", of).unwrap_or_default();
        let calls = stats.strip_prefix("calls=").and_then(|stats| stats.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    calls("cmdstat_evalsha") + calls("cmdstat_set")
}

// Slow: commands are counted for ten seconds.
#[tokio::test]
async fn waiters_with_notifications_send_few_commands() {
    let server = Server::start();
    let (holder, redlock) = (client([&server]), client([&server]));
    // With one name, only the first caller asks. With many, each asks three or four times in ten seconds, with two
    // commands. It would ask 13 times if it did not know that it is notified.
    for (names, limit) in [(1, 20), (1_000, 10_000)] {
        let name = |at: usize| format!("{names}-{}", at % names);
        let hold = |at| holder.lock(name(at)).ttl(Duration::from_secs(300)).acquire();
        let leases = join_all((0..names).map(hold)).await;
        let waiters: Vec<_> =
            (0..1_000).map(|at| tokio::spawn(redlock.lock(name(at)).acquire())).collect();
        // All of them have been refused.
        tokio::time::sleep(millis(3000)).await;
        let before = attempts(&server);
        tokio::time::sleep(millis(10_000)).await;
        let sent = attempts(&server) - before;
        waiters.iter().for_each(tokio::task::JoinHandle::abort);
        drop(leases);
        assert!(sent < limit, "{names} names: {sent} commands in 10 s");
    }
}

// Slow: 40,000 callers wait for two seconds.
#[tokio::test]
async fn waits_of_many_callers_end_in_time() {
    let redlock = Redlock::builder(["memory://bursts-waiters"]).build().unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let begun = Instant::now();
    let wait = |_| tokio::spawn(redlock.lock("job").wait(millis(2000)).acquire());
    let waiters: Vec<_> = (0..40_000).map(wait).collect();
    for waiter in waiters {
        waiter.await.unwrap().unwrap_err();
    }
    let took = begun.elapsed();
    assert!(took < millis(15_000), "{took:?}");
    drop(lease);
}
