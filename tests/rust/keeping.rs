//! Leases under way: renewed in time, told of their loss in time, whatever their round, their ttl or a minority did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redlock::clock::{self, Clock, Sleep, SystemClock};
use redlock::{ErrorKind, Redlock};

use crate::support::{Mode, Proxy, Server, builder, client, millis, servers};

fn memory() -> Redlock {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    Redlock::builder([format!("memory://keeping-{name}")]).build().unwrap()
}

#[tokio::test]
async fn a_lease_whose_round_took_most_of_its_ttl_is_renewed_at_once() {
    let server = Server::start();
    let redlock = client([&server]);
    // The next time that the keeper of leases looks by itself is after this lease's deadline.
    let other = redlock.lock("other").ttl(millis(4500)).acquire().await.unwrap();
    server.signal(libc::SIGSTOP);
    let pid = server.pid();
    let woken = std::thread::spawn(move || {
        std::thread::sleep(millis(1100));
        // SAFETY: the server outlives the thread, which is joined.
        unsafe { libc::kill(pid, libc::SIGCONT) }
    });
    let lock = redlock.lock("job").ttl(millis(1500)).node_timeout(millis(1400));
    let lease = lock.acquire().await.unwrap();
    woken.join().unwrap();
    assert!(lease.remaining() < millis(500));
    tokio::time::sleep(millis(2500)).await;
    lease.ensure_held().unwrap();
    drop(other);
}

#[tokio::test]
async fn a_loss_that_every_living_node_knows_is_told_though_one_is_dead() {
    let mut nodes = servers(3);
    let slow = Proxy::to(nodes[2].port);
    let urls = [nodes[0].url(), nodes[1].url(), slow.url()];
    let redlock = builder(urls).restart_guard(Duration::ZERO).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    nodes[0].kill();
    slow.set(Mode::Delay);
    tokio::time::sleep(millis(200)).await;
    let begun = Instant::now();
    nodes[1].ask("DEL lock:job");
    nodes[2].ask("DEL lock:job");
    let error = tokio::time::timeout(Duration::from_secs(8), lease.lost()).await.unwrap();
    assert_eq!(error.reason(), Some("missing"), "{error}, after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_lease_made_shorter_than_its_node_timeout_survives_a_frozen_minority() {
    let nodes = servers(3);
    let redlock = client(&nodes);
    let lock = redlock.lock("job").ttl(millis(2000)).node_timeout(millis(1900));
    let lease = lock.acquire().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    nodes[2].signal(libc::SIGSTOP);
    lease.extend(millis(320)).await.unwrap();
    tokio::time::sleep(millis(5000)).await;
    let held = lease.ensure_held();
    nodes[2].signal(libc::SIGCONT);
    held.unwrap();
}

#[tokio::test]
async fn an_extension_counts_once_it_is_confirmed() {
    let mut server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").ttl(millis(20_000)).acquire().await.unwrap();
    server.kill();
    assert_eq!(lease.extend(millis(300)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(lease.ttl(), millis(20_000));
}

#[tokio::test]
async fn times_beyond_ten_years_are_refused_and_harm_no_lease() {
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
    tokio::time::sleep(millis(900)).await;
    lease.ensure_held().unwrap();
}

#[tokio::test]
async fn attach_keeps_to_max_hold() {
    let server = Server::start();
    let (one, two) = (client([&server]), client([&server]));
    let first = one.lock("job").ttl(Duration::from_secs(20)).acquire().await.unwrap();
    let lock = two.lock("job").ttl(Duration::from_secs(20)).max_hold(millis(700));
    let second = lock.attach(first.token()).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(5), second.lost()).await.unwrap();
    assert_eq!(error.reason(), Some("max_hold"));
    second.into_handle().abandon();
}

#[tokio::test]
async fn a_first_lease_stands_on_every_node_at_once() {
    let nodes = servers(3);
    for round in 0..60 {
        let redlock = client(&nodes);
        let name = format!("job-{round}");
        let lease = redlock.lock(&*name).ttl(Duration::from_secs(30)).acquire().await.unwrap();
        tokio::time::sleep(millis(60)).await;
        for (at, node) in nodes.iter().enumerate() {
            // A busy machine may take longer to connect at all.
            let end = Instant::now() + Duration::from_secs(5);
            while node.ask(&format!("EXISTS lock:{name}")) != ":1" {
                assert!(Instant::now() < end, "round {round}: node {at} of 3");
                tokio::time::sleep(millis(5)).await;
            }
        }
        lease.release().await.unwrap();
        redlock.close();
    }
}

#[tokio::test]
async fn a_release_while_a_token_is_attached_to_leaves_no_lease_behind() {
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
        assert!(!attached.is_ok_and(|lease| lease.held()), "round {round}");
        next.release().await.unwrap();
    }
}

/// A clock whose sleeps panic on the background thread, once it is told to.
struct Treacherous(AtomicBool);

impl Clock for Treacherous {
    fn now(&self) -> clock::Instant {
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: clock::Instant) -> Sleep {
        let ours = std::thread::current().name() == Some("redlock");
        assert!(!(ours && self.0.swap(false, Ordering::SeqCst)), "a panic on purpose");
        SystemClock.sleep_until(at)
    }
}

#[tokio::test]
async fn a_panic_of_the_task_that_keeps_leases_is_told_to_all_and_the_next_use_starts_anew() {
    let clock = Arc::new(Treacherous(AtomicBool::new(false)));
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
    tokio::time::sleep(millis(1500)).await;
    next.ensure_held().unwrap();
}
