//! Rules of a connection that hold whichever thread writes and reads it: docs/testing.md lists them.

use std::backtrace::Backtrace;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use redlock::testing::{Clock, Instant, Sleep, SystemClock};
use redlock::{ErrorKind, Lease, Redlock};

use crate::support::drivers::{Driver, Kind};
use crate::support::{Gateway, Proxy, Server, Verdict, client, eventually_blocking, servers};

/// Longer than any test: without a notification or a delete, the key stays.
const LONG: Duration = Duration::from_secs(600);

/// Polls a future this often, and drops it then: at once, or when it is woken the next time.
async fn polled<T>(times: usize, at_once: bool, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), times);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 && at_once => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Each acquire is cancelled at another poll, or its lease is dropped.
#[test]
fn a_delete_is_sent_after_its_vote() {
    for driver in Driver::all() {
        let server = Server::start();
        let sent = Arc::new(Mutex::new(Vec::<Vec<String>>::new()));
        let log = Arc::clone(&sent);
        let gateway = Gateway::to(server.port, move |words, _| {
            log.lock().unwrap().push(words.to_vec());
            Verdict::Pass
        });
        let client = driver.patient(gateway.url());
        let mut granted = 0;
        for round in 0..40 {
            let lock = client.lock(format!("job-{round}")).ttl(LONG);
            let acquire = polled(round % 5, round % 2 == 0, lock.acquire());
            granted += usize::from(driver.run(acquire).is_some());
        }
        assert!((1..40).contains(&granted), "{:?}: {granted} granted", driver.kind);
        eventually_blocking("no key", || server.ask("DBSIZE") == ":0");
        let sent = sent.lock().unwrap();
        let mut votes = 0;
        // The handshake tries SET on another key.
        let is_vote = |words: &[String]| words[0] == "SET" && words[1].starts_with("lock:job-");
        for (at, vote) in sent.iter().enumerate().filter(|(_, words)| is_vote(words)) {
            let of_vote = |words: &&Vec<String>| words.contains(&vote[2]) && words[0] != "GET";
            assert_eq!(sent[..at].iter().filter(of_vote).count(), 0, "{:?}: {vote:?}", driver.kind);
            assert_ne!(sent[at + 1..].iter().filter(of_vote).count(), 0, "{vote:?} stays");
            votes += 1;
        }
        assert!(votes > granted, "{:?}: {votes} votes", driver.kind);
    }
}

/// The loop, or the runtime, has the reader role and is blocked.
#[test]
fn a_blocked_loop_is_renewed_for_and_notified() {
    for driver in [Kind::Loop, Kind::Runtime].map(Driver::of) {
        let server = Server::start();
        let client = driver.client(server.url());
        let lease = driver.run(client.lock("job").ttl(Duration::from_secs(2)).acquire()).unwrap();
        eventually_blocking("two renewals", || client.stats().renewed >= 2);
        lease.ensure_held().unwrap();
        server.ask("DEL lock:job");
        eventually_blocking("the loss", || !lease.is_held());
    }
}

/// The notification arrives over the second connection, before the reply that grants the lease.
#[test]
fn a_loss_before_the_reply_is_noticed() {
    for driver in Driver::all() {
        let (server, clock) = (Server::start(), Arc::new(Watching::default()));
        let proxy = Proxy::to(server.port);
        let builder = driver.builder(proxy.url()).clock(Arc::<Watching>::clone(&clock));
        let client = builder.node_timeout(Duration::from_secs(60)).build().unwrap();
        driver.warm(&client);
        eventually_blocking("the second connection", || server.redirects());
        assert_eq!(server.text("CLIENT LIST").matches(" name=redlock ").count(), 2);
        driver.warm(&client);
        proxy.hold();
        thread::scope(|scope| {
            let aside = scope.spawn(|| {
                eventually_blocking("a vote", || server.ask("EXISTS lock:job") == ":1");
                clock.watch("connection/task/notifications.rs");
                server.ask("DEL lock:job");
                clock.until_read();
                proxy.let_go();
            });
            let lease = driver.run(client.lock("job").ttl(LONG).acquire()).unwrap();
            aside.join().unwrap();
            // The next renewal is minutes away.
            let what = format!("{:?}: the loss", driver.kind);
            eventually_blocking(&what, || !lease.is_held());
        });
    }
}

#[test]
fn a_closed_client_ends_an_acquire_and_its_vote() {
    for driver in Driver::all() {
        let server = Server::start();
        let proxy = Proxy::to(server.port);
        let client = driver.patient(proxy.url());
        proxy.hold();
        thread::scope(|scope| {
            scope.spawn(|| {
                eventually_blocking("a vote", || server.ask("EXISTS lock:job") == ":1");
                client.close();
            });
            let closed = driver.run(client.lock("job").ttl(LONG).acquire());
            assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed, "{:?}", driver.kind);
        });
        proxy.let_go();
        eventually_blocking("no key", || server.ask("DBSIZE") == ":0");
    }
}

/// Whether a thread of this process sleeps until a connection is readable.
fn is_polling(thread: i32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
    call.split(' ').next() == Some(libc::SYS_ppoll.to_string().as_str())
}

/// A thread that acquires and releases, and reads its own replies.
struct Waiting {
    server: Server,
    proxy: Proxy,
    client: Redlock,
    id: i32,
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Waiting {
    fn begin() -> Self {
        let server = Server::start();
        let (proxy, driver) = (Proxy::to(server.port), Driver::of(Kind::Thread));
        let client = driver.patient(proxy.url());
        let (lock, (sender, ids)) = (client.lock("job").ttl(LONG), channel());
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || {
            // SAFETY: it returns a number.
            sender.send(unsafe { libc::gettid() }).unwrap();
            while !ends.load(Ordering::SeqCst) {
                // Not confirmed if the connection ends.
                let _ = lock.acquire_blocking().unwrap().release_blocking();
            }
        });
        let id = ids.recv().unwrap();
        Self { server, proxy, client, id, over, thread }
    }

    /// Holds back its replies, and waits until it sleeps for one.
    fn hold(&self) {
        self.proxy.hold();
        eventually_blocking("it waits", || is_polling(self.id));
    }

    fn end(self) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        eventually_blocking("no key", || self.server.ask("DBSIZE") == ":0");
    }
}

/// Runs the work in a forked child, which has to succeed.
fn in_child(work: impl FnOnce() -> bool) {
    // SAFETY: the child runs only the tested code and exits immediately.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: it ends no state of the parent.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    let mut status = 0;
    // SAFETY: the pointer to the status is valid.
    eventually_blocking("the child's end", || unsafe {
        libc::waitpid(child, &raw mut status, libc::WNOHANG) == child
    });
    assert_eq!(status, 0);
}

#[test]
fn a_fork_while_a_thread_waits_does_not_touch_its_connection() {
    let waiting = Waiting::begin();
    waiting.hold();
    in_child(|| {
        let lease = waiting.client.lock("child").ttl(LONG).acquire_blocking();
        lease.and_then(Lease::release_blocking).is_ok()
    });
    waiting.proxy.let_go();
    let granted = waiting.client.stats().granted;
    eventually_blocking("it continues", || waiting.client.stats().granted > granted + 10);
    assert_eq!(waiting.client.stats().reconnects, 0);
    waiting.end();
}

/// A clock that notices when the core reads it in one of its files.
#[derive(Default)]
struct Watching {
    /// The end of the file's path, while it is wanted.
    file: Mutex<Option<&'static str>>,
    /// How often it was read there.
    reads: AtomicUsize,
    /// Whether a thread that reads it there is suspended.
    suspends: Mutex<bool>,
    changed: Condvar,
}

impl Watching {
    fn watch(&self, file: &'static str) {
        *self.file.lock().unwrap() = Some(file);
    }

    /// Waits until it is read in the file.
    fn until_read(&self) {
        let what = format!("{:?} is reached", self.file.lock().unwrap());
        eventually_blocking(&what, || self.reads.load(Ordering::SeqCst) > 0);
    }

    fn resume(&self) {
        *self.suspends.lock().unwrap() = false;
        self.changed.notify_all();
    }
}

impl Clock for Watching {
    fn now(&self) -> Instant {
        let file = *self.file.lock().unwrap();
        if file.is_some_and(|file| Backtrace::force_capture().to_string().contains(file)) {
            *self.file.lock().unwrap() = None;
            self.reads.fetch_add(1, Ordering::SeqCst);
            let suspends = self.suspends.lock().unwrap();
            drop(self.changed.wait_while(suspends, |suspends| *suspends).unwrap());
        }
        SystemClock.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(at)
    }
}

/// A thread is suspended while it writes, and has the connection.
#[test]
fn a_suspended_thread_delays_only_its_connection() {
    let (server, other, clock) = (Server::start(), Server::start(), Arc::new(Watching::default()));
    let driver = Driver::of(Kind::Thread);
    let client =
        driver.builder(server.url()).clock(Arc::<Watching>::clone(&clock)).build().unwrap();
    driver.warm(&client);
    let elsewhere = driver.client(other.url());
    let held = elsewhere.lock("held").ttl(Duration::from_secs(2)).acquire_blocking().unwrap();
    let lock = client.lock("job").ttl(LONG);
    *clock.suspends.lock().unwrap() = true;
    clock.watch("connection/session/mod.rs");
    let suspended = thread::spawn(move || lock.acquire_blocking());
    clock.until_read();
    // Another thread's command waits, until its own deadline.
    let refused = client.lock("other").wait(Duration::ZERO).acquire_blocking();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    for _ in 0..10 {
        elsewhere.lock("job").acquire_blocking().unwrap().release_blocking().unwrap();
    }
    eventually_blocking("a renewal elsewhere", || elsewhere.stats().renewed > 0);
    held.release_blocking().unwrap();
    // A child has no thread that could leave the connection.
    in_child(|| {
        let lease = client.lock("child").acquire_blocking();
        lease.and_then(Lease::release_blocking).is_ok()
    });
    clock.resume();
    drop(suspended.join().unwrap());
    driver.warm(&client);
    eventually_blocking("no key", || server.ask("DBSIZE") == ":0");
}

/// The commands of one caller to several nodes are not held back for those of other callers.
#[test]
fn event_loop_writes_at_once_for_one_caller() {
    let (driver, nodes) = (Driver::of(Kind::Loop), servers(3));
    let client = client(&nodes);
    driver.warm(&client);
    let acquire = |name: &str| {
        let lock = client.lock(name).ttl(LONG);
        async move { drop(lock.acquire().await) }
    };
    assert!(driver.writes_at_once(acquire("first")));
    assert!(!driver.writes_at_once(acquire("second")), "the loop flushes at the end of its turn");
}
