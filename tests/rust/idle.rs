//! The first command after an idle period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock::Redlock;
use redlock::testing::{Clock, Instant, Sleep, SystemClock};

use crate::support::{Mode, Proxy, Server, eventually, millis};

/// The machine's clock, which can jump ahead.
#[derive(Clone, Default)]
pub(crate) struct JumpingClock(Arc<AtomicU64>);

impl JumpingClock {
    pub(crate) fn jump(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn ahead(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Instant {
        SystemClock.now() + self.ahead()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(at - self.ahead())
    }
}

struct Idle {
    server: Server,
    proxy: Proxy,
    clock: JumpingClock,
    redlock: Redlock,
}

impl Idle {
    async fn connected() -> Self {
        let (server, clock) = (Server::start(), JumpingClock::default());
        let proxy = Proxy::to(server.port);
        let builder = Redlock::builder([proxy.url()]).clock(Arc::new(clock.clone()));
        let redlock = builder.node_timeout(millis(4000)).build().unwrap();
        assert!(!redlock.lock("first").inspect().await.unwrap().held);
        Self { server, proxy, clock, redlock }
    }

    /// From now on, existing connections lead nowhere and stay open, and new ones lead to the server.
    async fn forgotten_after(&self, seconds: u64) {
        // This is the last command that the client sends without a caller.
        eventually("the second connection", || self.server.redirects()).await;
        // The reply to this follows the one to that command.
        self.redlock.lock("first").inspect().await.unwrap();
        self.proxy.forget();
        self.clock.jump(seconds);
    }
}

#[tokio::test]
async fn call_replaces_a_forgotten_connection() {
    let idle = Idle::connected().await;
    let lock = idle.redlock.lock("job").wait(Duration::ZERO);
    idle.forgotten_after(60).await;
    lock.acquire().await.unwrap().release().await.unwrap();
    idle.forgotten_after(60).await;
    assert!(!lock.inspect().await.unwrap().held);
    idle.forgotten_after(60).await;
    assert!(!idle.redlock.force_release("job").await.unwrap());
    idle.forgotten_after(60).await;
    lock.try_acquire().await.unwrap().expect("free").into_handle().detach();
}

/// Each case has a new client, because a connection that was opened during a lease sends commands for it at some time.
#[tokio::test]
async fn lease_replaces_a_forgotten_connection() {
    let held = async || {
        let idle = Idle::connected().await;
        let lock = idle.redlock.lock("job").ttl(Duration::from_secs(3600)).renew(false);
        let lease = lock.acquire().await.unwrap();
        idle.forgotten_after(60).await;
        (idle, lock, lease)
    };
    let (_idle, _, lease) = held().await;
    lease.extend(Duration::from_secs(3000)).await.unwrap();
    let (_idle, lock, lease) = held().await;
    lock.attach(lease.token()).await.unwrap().into_handle().detach();
    let (idle, _, lease) = held().await;
    lease.release().await.unwrap();
    assert_eq!(idle.server.ask("EXISTS lock:job"), ":0");
}

#[test]
fn blocking_thread_replaces_a_forgotten_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let idle = runtime.block_on(Idle::connected());
    let lock = idle.redlock.lock("job").wait(Duration::ZERO).ttl(Duration::from_secs(3600));
    for _ in 0..3 {
        for _ in 0..10 {
            lock.acquire_blocking().unwrap().release_blocking().unwrap();
        }
        runtime.block_on(idle.forgotten_after(60));
    }
}

#[tokio::test]
async fn keeps_an_idle_connection_that_replies() {
    let idle = Idle::connected().await;
    for _ in 0..5 {
        idle.clock.jump(60);
        let lock = idle.redlock.lock("job").wait(Duration::ZERO);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(idle.redlock.stats().reconnects, 0);
}

#[tokio::test]
async fn keeps_an_idle_connection_over_a_slow_network() {
    let (server, clock) = (Server::start(), JumpingClock::default());
    let proxy = Proxy::to(server.port);
    proxy.set(Mode::LongestDelay);
    let builder = Redlock::builder([proxy.url()]).clock(Arc::new(clock.clone()));
    let redlock =
        builder.node_timeout(millis(20_000)).connect_timeout(millis(60_000)).build().unwrap();
    let lock = redlock.lock("job").ttl(Duration::from_secs(3600));
    let lease = lock.acquire().await.unwrap();
    clock.jump(60);
    lease.extend(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(redlock.stats().reconnects, 0);
}
