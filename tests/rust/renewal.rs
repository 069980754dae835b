//! Active leases are renewed in time, and a loss is reported in time. This holds for any round, TTL or failed minority.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redlock::testing::{self, Clock, Sleep, SystemClock};
use redlock::{ErrorKind, LossReason, Redlock};

use crate::support::batch::calls_of;
use crate::support::{Proxy, Server, builder, client, eventually, millis};

fn memory() -> Redlock {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    Redlock::builder([format!("memory://keeping-{name}")]).build().unwrap()
}

/// The reply to the check is late. A lease that is not renewed would otherwise count as held until its TTL ends.
#[tokio::test]
async fn check_without_a_result_is_repeated() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).node_timeout(millis(50)).build().unwrap();
    let lock = redlock.lock("job").ttl(millis(60_000)).renew(false);
    drop(lock.acquire().await.unwrap());
    eventually("the second connection", || server.redirects()).await;
    let lease = lock.acquire().await.unwrap();
    proxy.hold();
    let checks = || calls_of(&server, "evalsha");
    let before = checks();
    server.ask("DEL lock:job");
    eventually("a check", || checks() > before).await;
    // Longer than the node timeout, and shorter than the silence that ends the connection.
    tokio::time::sleep(millis(300)).await;
    proxy.let_go();
    eventually("the loss", || !lease.is_held()).await;
    assert_eq!(lease.lost_reason(), Some(LossReason::Missing));
}

#[tokio::test]
async fn refuses_times_beyond_ten_years() {
    let redlock = memory();
    let lease = redlock.lock("job").ttl(millis(300)).acquire().await.unwrap();
    assert_eq!(lease.extend(Duration::MAX).await.unwrap_err().kind(), ErrorKind::Invalid);
    let invalid = |error: redlock::Error| assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let lock = redlock.lock("other");
    invalid(lock.clone().ttl(Duration::MAX).acquire().await.unwrap_err());
    invalid(lock.clone().max_hold(Duration::MAX).acquire().await.unwrap_err());
    invalid(lock.clone().wait(Duration::MAX).acquire().await.unwrap_err());
    invalid(lock.clone().node_timeout(Duration::MAX).try_acquire().await.unwrap_err());
    let builder = || Redlock::builder(["memory://limits", "memory://limits-too"]);
    invalid(builder().node_timeout(Duration::MAX).build().unwrap_err());
    invalid(builder().restart_guard(Duration::MAX).build().unwrap_err());
    eventually("renewals", || redlock.stats().renewed >= 6).await;
    lease.ensure_held().unwrap();
}

#[tokio::test]
async fn release_during_attach_leaves_no_lease() {
    let server = Server::start();
    let (redlock, other) = (client([&server]), client([&server]));
    for round in 0..100 {
        let first = redlock.lock("job").ttl(Duration::from_secs(9)).acquire().await.unwrap();
        let attach = tokio::spawn(redlock.lock("job").attach(first.token()));
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        first.release().await.unwrap();
        let next = other.lock("job").wait(Duration::from_secs(9)).acquire();
        let attached = attach.await.unwrap();
        let next = next.await.unwrap();
        assert!(!attached.is_ok_and(|lease| lease.is_held()), "round {round}");
        next.release().await.unwrap();
    }
}

/// A clock whose sleeps panic on the background thread once the flag is set.
struct PanickingClock(AtomicBool);

impl Clock for PanickingClock {
    fn now(&self) -> testing::Instant {
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: testing::Instant) -> Sleep {
        let ours = std::thread::current().name() == Some("redlock");
        assert!(!(ours && self.0.swap(false, Ordering::SeqCst)), "a panic on purpose");
        SystemClock.sleep_until(at)
    }
}

#[tokio::test]
async fn panic_of_the_renewal_task_notifies_all_and_restarts() {
    let clock = Arc::new(PanickingClock(AtomicBool::new(false)));
    let shared: Arc<dyn Clock> = clock.clone();
    let redlock = Redlock::builder(["memory://panic"]).clock(shared).build().unwrap();
    let lock = redlock.lock("job").ttl(millis(600));
    let (one, two) = (lock.acquire().await.unwrap(), redlock.lock("two").acquire().await.unwrap());
    clock.0.store(true, Ordering::SeqCst);
    let both = async { (one.lost().await, two.lost().await) };
    let (first, second) = tokio::time::timeout(Duration::from_secs(5), both).await.unwrap();
    assert_eq!((first.reason(), second.reason()), (Some("internal"), Some("internal")));
    drop((one, two));
    let next = lock.acquire().await.unwrap();
    let before = redlock.stats().renewed;
    eventually("renewals", || redlock.stats().renewed >= before + 6).await;
    next.ensure_held().unwrap();
}

#[tokio::test]
async fn attach_during_a_panic_of_the_renewal_task_fails() {
    let clock = Arc::new(PanickingClock(AtomicBool::new(false)));
    let (shared, server): (Arc<dyn Clock>, _) = (clock.clone(), Server::start());
    let redlock = builder([server.url()]).clock(shared).build().unwrap();
    let renewed = redlock.lock("renewed").ttl(millis(2000)).acquire().await.unwrap();
    let held = client([&server]).lock("held").acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    let mut attach = std::pin::pin!(redlock.lock("held").attach(held.token()));
    assert!(futures_util::poll!(&mut attach).is_pending());
    clock.0.store(true, Ordering::SeqCst);
    assert_eq!(renewed.lost().await.reason(), Some("internal"));
    server.signal(libc::SIGCONT);
    let error = attach.await.map(drop).unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::Internal), "{error}");
    held.ensure_held().unwrap();
}
