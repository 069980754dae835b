//! How soon a waiter acquires after its key was deleted by hand.

use std::time::{Duration, Instant};

use crate::support::{Server, builder, millis};

/// The shortest of three times from the delete to the acquire.
async fn shortest_wakeup(server: &Server) -> Duration {
    let redlock = builder([server.url()]).build().unwrap();
    let mut best = Duration::MAX;
    for _ in 0..3 {
        server.ask("SET lock:job theirs PX 60000");
        let waiting = tokio::spawn(redlock.lock("job").wait(millis(10_000)).acquire());
        tokio::time::sleep(millis(150)).await;
        let deleted = Instant::now();
        server.ask("DEL lock:job");
        let lease = waiting.await.unwrap().unwrap();
        best = best.min(deleted.elapsed());
        lease.release().await.unwrap();
    }
    best
}

// Slow: an upper bound on a duration is the subject.
#[tokio::test]
async fn push_wakes_a_waiter_before_it_polls() {
    let best = shortest_wakeup(&Server::start()).await;
    // Without pushes, a waiter checks again after half a second.
    assert!(best < millis(300), "{best:?}");
}

// Slow: an upper bound on a duration is the subject.
#[tokio::test]
async fn waiter_without_pushes_polls_often() {
    let best = shortest_wakeup(&Server::with(&["--rename-command", "HELLO", ""])).await;
    assert!(best < millis(250), "{best:?}");
}
