//! Keys that are released while the path to their server is broken are deleted as soon as it works again, however many
//! other callers retry meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::{Lock, Redlock};

use crate::support::{Gateway, Server, Verdict, builder, millis};

/// The number of released keys.
const RELEASED: usize = 20;

/// A path that passes only the handshake while it is broken, such as one that loses large packets.
struct BreakingPath {
    gateway: Gateway,
    broken: Arc<AtomicBool>,
    /// The number of connections that were broken.
    breaks: Arc<AtomicUsize>,
}

impl BreakingPath {
    fn to(server: &Server) -> Self {
        let (broken, breaks) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_broken, count) = (Arc::clone(&broken), Arc::clone(&breaks));
        let gateway = Gateway::to(server.port, move |words, _| {
            let of_lock = matches!(&*words[0], "SET" | "EVALSHA");
            let of_handshake = words.iter().any(|word| word.contains("redlock-rights"));
            if of_lock && !of_handshake && is_broken.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                while is_broken.load(Ordering::Relaxed) {
                    std::thread::sleep(millis(10));
                }
            }
            Verdict::Pass
        });
        Self { gateway, broken, breaks }
    }
}

/// Releases keys while the path is broken and callers retry, until `over`. Returns how many keys stay.
async fn released_keys_that_stay(
    callers: usize,
    configure: impl Fn(Lock) -> Lock,
    over: impl AsyncFn(&BreakingPath),
) -> usize {
    let server = Server::start();
    let path = BreakingPath::to(&server);
    let redlock = builder([path.gateway.url()]).build().unwrap();
    let name = |at: usize| format!("released-{at}");
    let take = |at| redlock.lock(name(at)).ttl(Duration::from_secs(50)).acquire();
    let leases = join_all((0..RELEASED).map(take)).await;
    path.broken.store(true, Ordering::Relaxed);
    for lease in leases {
        drop(lease.unwrap().release());
    }
    let tasks: Vec<_> = (0..callers)
        .map(|at| {
            tokio::spawn(retry(
                redlock.clone(),
                configure(redlock.lock(format!("job-{at}")).ttl(Duration::from_secs(60))),
            ))
        })
        .collect();
    over(&path).await;
    path.broken.store(false, Ordering::Relaxed);
    let end = Instant::now() + Duration::from_secs(8);
    let left = || {
        (0..RELEASED).filter(|at| server.ask(&format!("EXISTS lock:{}", name(*at))) == ":1").count()
    };
    while left() > 0 && Instant::now() < end {
        tokio::time::sleep(millis(50)).await;
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    left()
}

/// Acquires again and again, as a program does after an error.
async fn retry(redlock: Redlock, lock: Lock) {
    loop {
        if let Ok(lease) = lock.acquire().await {
            drop(lease.release().await);
        }
        tokio::time::sleep(millis(1)).await;
        let _ = &redlock;
    }
}

// Slow: a connection must stay silent until it is given up, 20 times.
#[tokio::test]
async fn path_that_breaks_often_displaces_no_released_key() {
    let stay = released_keys_that_stay(
        300,
        |lock| lock,
        async |path| {
            let end = Instant::now() + Duration::from_secs(60);
            while path.breaks.load(Ordering::Relaxed) < 20 {
                assert!(Instant::now() < end, "{} breaks", path.breaks.load(Ordering::Relaxed));
                tokio::time::sleep(millis(20)).await;
            }
        },
    );
    assert_eq!(stay.await, 0);
}

// Slow: the path is broken for two seconds.
#[tokio::test]
async fn many_short_attempts_displace_no_released_key() {
    let configure = |lock: Lock| lock.node_timeout(millis(50));
    let stay = released_keys_that_stay(1_000, configure, async |_| {
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    assert_eq!(stay.await, 0);
}
