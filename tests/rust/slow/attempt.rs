//! One free key is requested with the cheapest command. In every other case a script decides.

use redlock::Redlock;

use crate::support::{Mode, Proxy, Server, client, millis};

// Slow: the waiter waits for longer than its TTL over a link that delays each reply.
#[tokio::test]
async fn waits_on_a_link_too_slow_for_two_commands() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let slow = Redlock::builder([proxy.url()]).node_timeout(millis(250)).build().unwrap();
    slow.lock("job").inspect().await.unwrap();
    let lease = client([&server]).lock("job").acquire().await.unwrap();
    proxy.set(Mode::Delay); // 150 ms for each reply
    let waiter = tokio::spawn(slow.lock("job").ttl(millis(1000)).acquire());
    tokio::time::sleep(millis(2500)).await;
    assert!(!waiter.is_finished(), "unavailable for a whole ttl: {:?}", waiter.await);
    lease.release().await.unwrap();
    let acquired = tokio::time::timeout(millis(10_000), waiter).await.expect("woken").unwrap();
    assert!(acquired.unwrap().is_held());
}
