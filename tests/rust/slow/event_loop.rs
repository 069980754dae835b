//! An event loop that reads its own connections, and what wakes it.

use std::future::Future;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock::ffi::Driver;
use redlock::{Lease, Lock};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{sleep, timeout};

use crate::support::{Server, client, millis};

/// Behaves like the event loop of Python or Node.js.
struct EventLoop {
    descriptor: AsyncFd<RawFd>,
    driver: Driver<()>,
}

impl EventLoop {
    fn new() -> Self {
        let driver = Driver::on_loop().unwrap();
        let descriptor = driver.descriptor().unwrap();
        // SAFETY: it is open for as long as the driver, and this is dropped first.
        let descriptor =
            unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE).unwrap() };
        Self { descriptor, driver }
    }

    /// Waits for readiness and handles it. Returns how many futures have completed.
    async fn handle_ready(&self) -> usize {
        // Clears readiness first, so that an event during the handling wakes the loop again.
        self.descriptor.readable().await.unwrap().clear_ready();
        self.driver.read_available().0.len()
    }

    async fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.driver.enqueue(future, ());
        let (done, written) = self.driver.wake();
        if !written {
            self.driver.flush();
        }
        let mut done = done.len();
        while done == 0 {
            done = self.handle_ready().await;
        }
    }
}

type Leases = Arc<Mutex<Vec<Lease>>>;

fn acquire(lock: Lock, leases: &Leases) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let leases = Arc::clone(leases);
    Box::pin(async move {
        let lease = lock.acquire().await.unwrap();
        leases.lock().unwrap().push(lease);
    })
}

// Slow: wake-ups are counted for four seconds.
#[tokio::test]
async fn renewals_do_not_wake_the_event_loop() {
    let server = Server::start();
    let redlock = client([&server]);
    let (here, leases) = (EventLoop::new(), Leases::default());
    // Repeats until the loop reads the connection itself.
    for _ in 0..300 {
        here.run(acquire(redlock.lock("warm"), &leases)).await;
        let lease = leases.lock().unwrap().pop().unwrap();
        here.run(async move { lease.release().await.unwrap() }).await;
    }
    for number in 0..60 {
        let lock = redlock.lock(format!("job-{number}")).ttl(millis(3000));
        here.run(acquire(lock, &leases)).await;
        sleep(millis(15)).await;
    }
    let before = redlock.stats().renewed;
    let mut looks = 0;
    let counted = async {
        loop {
            here.handle_ready().await;
            looks += 1;
        }
    };
    timeout(Duration::from_secs(4), counted).await.unwrap_err();
    let renewed = redlock.stats().renewed - before;
    assert!(renewed >= 120, "{renewed}");
    assert!(looks < 20, "{looks} for {renewed} renewals");
    // It works as before.
    here.run(acquire(redlock.lock("warm"), &leases)).await;
    assert!(leases.lock().unwrap().iter().all(|lease| lease.is_held()));
}
