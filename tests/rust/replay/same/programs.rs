//! rslock's README, its examples, and its use without tokio.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use redlock::{Error, ErrorKind, Redlock};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{TEN_SECONDS, all_gone, on, three};
use crate::support::{Cluster, Server, builder, eventually_blocking, millis};

/// Acquires, extends and releases a lease.
pub(super) async fn basic(client: &Redlock) -> Result<(), Error> {
    let lease = client.lock("lock:mutex").ttl(millis(1000)).wait(TEN_SECONDS).acquire().await?;
    lease.extend(millis(1000)).await?;
    lease.release().await
}

#[tokio::test]
async fn example_basic() {
    let (nodes, client) = three();
    basic(&client).await.unwrap();
    all_gone(&nodes, "lock:mutex");
}

#[tokio::test]
async fn example_cluster() {
    let cluster = Cluster::start(3, false);
    let client = builder([cluster.url()]).build().unwrap();
    let lease = client.lock("lock:cluster-example").ttl(TEN_SECONDS).acquire().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn doc_guard_release() {
    let (nodes, client) = three();
    let example = async || {
        let lease = client.lock("lock:resource").ttl(TEN_SECONDS).acquire().await?;
        lease.ensure_held()?;
        lease.release().await
    };
    example().await.unwrap();
    all_gone(&nodes, "lock:resource");
}

#[tokio::test]
async fn readme() {
    let (nodes, client) = three();
    let lock = client.lock("lock:my_mutex").ttl(millis(1000)).renew(false);
    let lease = lock.acquire().await.unwrap();
    lease.extend(millis(1000)).await.unwrap();
    // Counted from now, not from the former end of the lease.
    let remaining = lease.remaining();
    assert!(remaining > millis(0) && remaining <= millis(1000), "{remaining:?}");
    lease.release().await.unwrap();
    all_gone(&nodes, "lock:my_mutex");
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that can only wait, on a thread without another executor.
fn alone<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let run = move || {
        assert!(Handle::try_current().is_err());
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut work = pin!(work);
        loop {
            match work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    };
    thread::spawn(run).join().unwrap()
}

/// Uses no timers of the executor, which has none.
async fn renewed(client: Redlock, times: u64) {
    let (send, receive) = oneshot::channel();
    thread::spawn(move || {
        eventually_blocking("renewals", || client.stats().renewed >= times);
        let _ = send.send(());
    });
    receive.await.unwrap();
}

#[test]
fn smol_without_tokio_runtime() {
    let (nodes, client) = three();
    alone(async move {
        let lock = client.lock("lock:native").ttl(TEN_SECONDS);
        let lease = lock.acquire().await.unwrap();
        let error = lock.clone().wait(millis(2000)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        lease.extend(TEN_SECONDS).await.unwrap();
        lease.release().await.unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let using = client.lock("lock:using").ttl(millis(800)).using(async |_| {
            renewed(client.clone(), 4).await;
            42
        });
        assert_eq!(using.await.unwrap(), 42);
    });
    ["lock:native", "lock:using"].iter().for_each(|key| all_gone(&nodes, key));
}

#[test]
fn example_smol() {
    let node = Server::start();
    let client = on([&node]);
    alone(async move {
        let lease = client.lock("lock:smol-example").ttl(TEN_SECONDS).acquire().await.unwrap();
        lease.release().await.unwrap();
    });
    assert_eq!(node.ask("EXISTS lock:smol-example"), ":0");
}
