//! Cases where redlock differs from rslock, neither better nor worse.

use std::time::Duration;

use redlock::ErrorKind;
use tokio::sync::oneshot;

use super::{all_gone, all_have, three};
use crate::support::millis;

const TEN_SECONDS: Duration = Duration::from_secs(10);

fn is_token(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[tokio::test]
async fn lock_get_unique_id() {
    let (_nodes, client) = three();
    assert!(is_token(client.lock("lock:job").acquire().await.unwrap().token()));
}

#[tokio::test]
async fn lock_lock() {
    let (nodes, client) = three();
    let name = "lock:stock:9/Größe\u{1f512}";
    let lease = client.lock(name).ttl(TEN_SECONDS).acquire().await.unwrap();
    assert_eq!(lease.key(), name);
    assert!(is_token(lease.token()));
    assert!(lease.remaining() > Duration::ZERO && lease.remaining() < TEN_SECONDS);
    all_have(&nodes, name, lease.token());
}

#[tokio::test]
async fn lock_unlock() {
    let (nodes, client) = three();
    nodes[0].ask("SET lock:job theirs");
    // One server of three is not enough for a holder.
    let attached = client.lock("lock:job").attach("theirs").await;
    assert_eq!(attached.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(nodes[0].ask("GET lock:job"), "theirs");
    // Two of three nodes report no lock, and the third may be late. So the result may be either.
    let _ = client.force_release("lock:job").await.unwrap();
    all_gone(&nodes, "lock:job");
}

#[tokio::test]
async fn example_shared_lock() {
    let (nodes, client) = three();
    let (send, receive) = oneshot::channel();
    let lock = client.lock("lock:shared").ttl(millis(2000));
    let sender = tokio::spawn(async move {
        let lease = lock.acquire().await.unwrap().into_handle();
        send.send(lease.clone()).ok().unwrap();
        lease.extend(millis(4000)).await.unwrap();
        lease
    });
    let receiver = tokio::spawn(async move { receive.await.ok().unwrap() });
    let (ours, theirs) = (sender.await.unwrap(), receiver.await.unwrap());
    theirs.extend(millis(1000)).await.unwrap();
    assert!(theirs.remaining() > millis(1500), "it was shortened: {:?}", theirs.remaining());
    theirs.release().await.unwrap();
    all_gone(&nodes, "lock:shared");
    assert!(ours.is_released() && !ours.is_held());
}
