//! Throw-away servers, a misbehaving proxy, and small helpers.

#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) mod batch;
#[allow(dead_code, reason = "not every test program needs all of it")]
mod certificates;
#[allow(dead_code, reason = "not every test program needs all of it")]
mod cluster;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) mod drivers;
mod eventually;
#[allow(dead_code, reason = "not every test program needs all of it")]
mod gateway;
#[allow(dead_code, reason = "not every test program needs all of it")]
mod proxy;
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) mod replicas;
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) mod runtimes;
mod sentinel;
#[allow(dead_code, reason = "not every test program needs all of it")]
mod server;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock::{Builder, Redlock};

#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use certificates::{Certificates, locks, trusting};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use cluster::{Cluster, alone, member, wait};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use eventually::{eventually, eventually_blocking, late_failure};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use gateway::{Gateway, Verdict};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use proxy::{DELAY, Mode, Proxy};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use sentinel::{SERVERS_PASSWORD, Sentinels};
#[allow(unused_imports, reason = "not every test program needs all of it")]
pub(crate) use server::{RIGHTS, Server};

/// A free port below the ephemeral range of the system, and below the ports of cluster buses, which are the servers'
/// ports plus 10,000. No other program takes it before the server starts or while the server is down.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    loop {
        let at = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(12_000 + at % 10_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|_| Server::start()).collect()
}

/// Runs a proxy or similar helper until the process exits, on a thread with a separate name. With the name of its test,
/// it would look like a test that does not end.
pub(crate) fn spawn_helper(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name("aside".into()).spawn(work).unwrap();
}

/// Fails after a time limit, for code that would block the test thread forever.
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    answer.recv_timeout(time).expect("it answers in time")
}

/// Blocks on a new runtime of this thread, which ends with the call.
#[allow(dead_code, reason = "not every test program needs all of it")]
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A node that accepts connections and never replies.
pub(crate) struct Silent(TcpListener);

impl Silent {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub(crate) fn called(&self) -> bool {
        self.0.accept().is_ok()
    }
}

/// A client for new servers, which are younger than the default restart guard.
pub(crate) fn client<'a>(nodes: impl IntoIterator<Item = &'a Server>) -> Redlock {
    let urls: Vec<String> = nodes.into_iter().map(Server::url).collect();
    builder(urls).restart_guard(Duration::ZERO).build().unwrap()
}

pub(crate) fn builder(urls: impl IntoIterator<Item = impl Into<String>>) -> Builder {
    Redlock::builder(urls)
}

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
