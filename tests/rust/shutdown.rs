//! How leases and clients end: released during a hold, in order, in a hurry, immediately.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use redlock::ffi::fail_memory;
use redlock::{ErrorKind, Redlock};

use crate::support::{
    Mode, Proxy, Server, builder, client, eventually, eventually_blocking, millis, servers,
};

fn memory() -> Redlock {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    Redlock::builder([format!("memory://endings-{name}")]).build().unwrap()
}

#[tokio::test]
async fn release_all_notifies_holders() {
    let server = Server::start();
    for redlock in [client([&server]), memory()] {
        let lease = redlock.lock("job").acquire().await.unwrap();
        let lost = tokio::spawn(lease.lost());
        let next = tokio::spawn(redlock.lock("job").wait(millis(5000)).acquire());
        eventually("a waiter", || redlock.stats().waiting == 1).await;
        assert_eq!(redlock.release_all().await.unwrap(), 1);
        let error = tokio::time::timeout(millis(5000), lost).await.unwrap().unwrap();
        assert_eq!(error.reason(), Some("revoked"), "{error}");
        assert!(!lease.is_held());
        let next = next.await.unwrap().unwrap();
        let error = lease.release().await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Lost, Some("revoked")));
        assert!(next.is_held(), "the release of a lease that was taken back is not the next one's");
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn release_by_the_body_is_not_a_loss() {
    let redlock = memory();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let (hold, ended) = (lease.handle(), lease.ended());
    lease.release().await.unwrap();
    assert!(ended.await.is_none());
    assert!(hold.lost_reason().is_none() && hold.is_released());
    assert_eq!(redlock.release_all().await.unwrap(), 0);
}

#[tokio::test]
async fn ended_completes_for_every_kind_of_end() {
    let redlock = memory();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let ended = tokio::spawn(lease.ended());
    tokio::task::yield_now().await;
    assert!(!ended.is_finished());
    assert!(lease.into_handle().detach());
    assert!(tokio::time::timeout(millis(5000), ended).await.unwrap().unwrap().is_none());
    redlock.force_release("job").await.unwrap();
    let lost = redlock.lock("job").ttl(millis(150)).renew(false).acquire().await.unwrap();
    let error = tokio::time::timeout(millis(5000), lost.ended()).await.unwrap().unwrap();
    assert_eq!(error.reason(), Some("expired"));
}

#[tokio::test]
async fn release_ends_every_lease_of_its_token() {
    let server = Server::start();
    for redlock in [client([&server]), memory()] {
        let first = redlock.lock("job").ttl(millis(9000)).acquire().await.unwrap();
        let lock = redlock.lock("job").ttl(millis(9000));
        let second = lock.attach(first.token()).await.unwrap();
        let next = tokio::spawn(redlock.lock("job").wait(millis(5000)).acquire());
        let lost = first.lost();
        second.release().await.unwrap();
        let error = tokio::time::timeout(millis(2000), lost).await.unwrap();
        assert_eq!(error.reason(), Some("revoked"));
        assert!(!first.is_held());
        drop(next.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn manual_delete_notifies_every_lease_of_the_token() {
    let server = Server::start();
    let (redlock, other) = (client([&server]), client([&server]));
    let first = redlock.lock("job").ttl(millis(9000)).acquire().await.unwrap();
    let lock = redlock.lock("job").ttl(millis(9000));
    let second = lock.attach(first.token()).await.unwrap();
    let (one, two) = (first.lost(), second.lost());
    other.force_release("job").await.unwrap();
    let both = async { (one.await, two.await) };
    let (one, two) = tokio::time::timeout(millis(2000), both).await.unwrap();
    assert_eq!((one.reason(), two.reason()), (Some("missing"), Some("missing")));
}

#[tokio::test]
async fn shutdown_lets_waiting_acquires_finish() {
    let server = Server::start();
    let name = "memory://endings-shared";
    let shared = || Redlock::builder([name]).build().unwrap();
    for (redlock, other) in [(client([&server]), client([&server])), (shared(), shared())] {
        let foreign = other.lock("job").acquire().await.unwrap();
        // One waits at the server, and two wait behind it in this process.
        let mut waiting: Vec<_> =
            (0..3).map(|_| tokio::spawn(redlock.lock("job").acquire())).collect();
        eventually("waiters", || redlock.stats().waiting == 3).await;
        let down = tokio::spawn(redlock.shutdown(Duration::from_secs(600)));
        for refused in [
            redlock.lock("new").acquire().await.map(drop),
            redlock.lock("new").try_acquire().await.map(drop),
            redlock.lock("job").attach(foreign.token()).await.map(drop),
            redlock.lock("new").inspect().await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
        }
        foreign.release().await.unwrap();
        while !waiting.is_empty() {
            let (lease, _, rest) = futures_util::future::select_all(waiting).await;
            waiting = rest;
            let lease = lease.unwrap().unwrap();
            lease.extend(Duration::from_secs(20)).await.unwrap();
            assert!(lease.is_held() && !down.is_finished(), "{:?}", lease.lost_reason());
            lease.release().await.unwrap();
        }
        assert_eq!(down.await.unwrap().unwrap(), 0);
        drop(other.lock("job").try_acquire().await.unwrap().expect("no key is left"));
    }
}

#[tokio::test]
async fn shutdown_without_timeout_ends_waiting_acquires() {
    let redlock = memory();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let waiting = tokio::spawn(redlock.lock("job").acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    let first = tokio::spawn(redlock.shutdown(Duration::from_secs(600)));
    let lost = lease.lost();
    // This applies even if another call allows more time. The future need not be polled. It continues if dropped.
    drop(redlock.shutdown(Duration::ZERO));
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(lost.await.reason(), Some("revoked"));
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn shutdown_ends_waits_and_leases_at_its_timeout() {
    let server = Server::start();
    let (redlock, other) = (client([&server]), client([&server]));
    let short = redlock.lock("short").acquire().await.unwrap();
    let long = redlock.lock("long").acquire().await.unwrap();
    let foreign = other.lock("foreign").acquire().await.unwrap();
    let waiting = tokio::spawn(redlock.lock("foreign").acquire());
    eventually("a waiter", || redlock.stats().waiting == 1).await;
    let lost = long.lost();
    let down = tokio::spawn(redlock.shutdown(millis(600)));
    let refused = redlock.lock("new").acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert!(
        long.is_held() && !waiting.is_finished() && !down.is_finished(),
        "they have their time"
    );
    short.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(down.await.unwrap().unwrap(), 1);
    let error = tokio::time::timeout(millis(2000), lost).await.unwrap();
    assert_eq!(error.reason(), Some("revoked"));
    assert_eq!(server.ask("EXISTS lock:short"), ":0");
    assert_eq!(server.ask("EXISTS lock:long"), ":0");
    assert!(foreign.is_held());
    assert_eq!(redlock.shutdown(millis(600)).await.unwrap(), 0, "a second one has nothing to do");
}

#[tokio::test]
async fn shutdown_returns_once_nothing_is_held() {
    let redlock = memory();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let down = tokio::spawn(redlock.shutdown(Duration::from_secs(60)));
    tokio::task::yield_now().await;
    drop(lease);
    assert_eq!(tokio::time::timeout(millis(5000), down).await.unwrap().unwrap().unwrap(), 0);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_dead_server() {
    let mut server = Server::start();
    let redlock = client([&server]);
    let lease = redlock.lock("job").acquire().await.unwrap();
    server.kill();
    let down = tokio::time::timeout(millis(20_000), redlock.shutdown(Duration::ZERO)).await;
    let error = down.expect("it does not wait").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(redlock.lock("job").acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    drop(lease);
}

/// The server accepts the connection and replies to nothing, as behind a load balancer without a server.
#[tokio::test]
async fn shutdown_reports_a_delete_that_waits_for_a_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).build().unwrap();
    let lease = redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    let connections = || proxy.connections.load(Ordering::Relaxed);
    let before = connections();
    proxy.set(Mode::Blackhole);
    proxy.reset();
    eventually("another connection", || connections() > before).await;
    lease.release().await.unwrap_err();
    let down = tokio::time::timeout(millis(20_000), redlock.shutdown(Duration::ZERO)).await;
    assert_eq!(down.expect("it ends").unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
}

#[tokio::test]
async fn shutdown_reports_a_delete_that_waits_for_a_memory_node() {
    let client = || Redlock::builder(["memory://pending"]).build().unwrap();
    let acquire = async |redlock: &Redlock| {
        redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap()
    };
    for dropped in [true, false] {
        let redlock = client();
        let lease = acquire(&redlock).await;
        fail_memory("pending", true);
        if dropped {
            drop(lease);
        } else {
            lease.release().await.unwrap_err();
        }
        redlock.lock("other").wait(Duration::ZERO).acquire().await.unwrap_err();
        let error = redlock.shutdown(Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("releases are not confirmed"), "{error}");
        // The delete is sent when the node replies again.
        fail_memory("pending", false);
        assert!(!client().lock("job").inspect().await.unwrap().held);
        assert_eq!(redlock.shutdown(Duration::ZERO).await.unwrap(), 0);
    }
    let redlock = client();
    let lease = acquire(&redlock).await;
    fail_memory("pending", true);
    lease.release().await.unwrap_err();
    let down = tokio::spawn(redlock.shutdown(Duration::from_secs(60)));
    fail_memory("pending", false);
    assert_eq!(down.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn shutdown_ignores_dead_nodes_without_pending_deletes() {
    let mut servers = servers(3);
    servers[2].kill();
    let redlock = client(&servers);
    let lease = redlock.lock("job").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    lease.release().await.unwrap();
    let down = tokio::time::timeout(millis(20_000), redlock.shutdown(Duration::from_secs(60)));
    down.await.expect("it does not wait").unwrap();
}

#[test]
fn closed_client_grants_no_lease() {
    for round in 0..300 {
        let redlock = memory();
        let (client, begun) = (redlock.clone(), Arc::new(Barrier::new(2)));
        let go = Arc::clone(&begun);
        let acquiring = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            go.wait();
            let lease = |at: i32| runtime.block_on(client.lock(format!("job-{at}")).acquire());
            (0..50).filter_map(|at| lease(at).ok()).collect::<Vec<_>>()
        });
        begun.wait();
        for _ in 0..round * 10 {
            std::hint::spin_loop();
        }
        redlock.close();
        let held = acquiring.join().unwrap().iter().filter(|lease| lease.is_held()).count();
        assert_eq!(held, 0, "round {round}: leases held after close");
    }
}

const EXIT: &str = "SHUTDOWN_EXIT_URL";

#[test]
fn lease_dropped_at_process_exit_leaves_no_key() {
    if let Ok(url) = std::env::var(EXIT) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redlock = builder([url]).build().unwrap();
        let lease = runtime.block_on(redlock.lock("job").acquire()).unwrap();
        drop(runtime);
        drop(lease);
        std::process::exit(0);
    }
    let server = Server::start();
    let name = "shutdown::lease_dropped_at_process_exit_leaves_no_key";
    let left = (0..30).filter(|_| {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact", "--nocapture"]).env(EXIT, server.url());
        assert!(program.stdout(std::process::Stdio::null()).status().unwrap().success());
        server.ask("DEL lock:job") != ":0"
    });
    assert_eq!(left.count(), 0, "of 30 programs left their key");
}

const EXIT_IN_FLIGHT: &str = "SHUTDOWN_EXIT_IN_FLIGHT_URL";
const BY: &str = "SHUTDOWN_EXIT_IN_FLIGHT_BY";

/// Begins acquires by threads or by the tasks of a runtime, and ends the process when the parent asks for it.
fn exit_in_flight(url: String, by: &str, count: usize) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redlock = builder([url]).build().unwrap();
    let line = || std::io::stdin().read_line(&mut String::new()).unwrap();
    let lock = |at: usize| redlock.lock(format!("left-{at}")).ttl(Duration::from_secs(60));
    runtime.block_on(async { redlock.lock("first").acquire().await?.release().await }).unwrap();
    println!("connected");
    line();
    if by == "threads" {
        for lock in (0..count).map(lock) {
            std::thread::spawn(move || lock.acquire_blocking());
        }
        line();
    } else {
        // The tasks are polled once, and never again.
        let mut tasks: Vec<_> = (0..count).map(|at| Box::pin(lock(at).acquire())).collect();
        runtime.block_on(async {
            for task in &mut tasks {
                assert!(futures_util::poll!(task).is_pending());
            }
        });
        line();
        std::mem::forget(tasks);
    }
    std::process::exit(0);
}

/// The process ends while the replies to its acquires are under way, and no caller runs again.
#[test]
fn acquires_in_flight_at_process_exit_leave_no_key() {
    const COUNT: usize = 5;
    if let Ok(url) = std::env::var(EXIT_IN_FLIGHT) {
        exit_in_flight(url, &std::env::var(BY).unwrap(), COUNT);
    }
    let name = "shutdown::acquires_in_flight_at_process_exit_leave_no_key";
    for by in ["threads", "tasks"] {
        let server = Server::start();
        let proxy = Proxy::to(server.port);
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact", "--nocapture"]).env(EXIT_IN_FLIGHT, proxy.url()).env(BY, by);
        program.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("connected")));
        proxy.set(Mode::DropReplies);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"acquire\n").unwrap();
        let keys = || server.ask("DBSIZE");
        eventually_blocking("all are granted", || keys() == format!(":{COUNT}"));
        stdin.write_all(b"exit\n").unwrap();
        assert!(child.wait().unwrap().success());
        eventually_blocking(by, || keys() == ":0");
    }
}

const EXIT_IN_TASK: &str = "SHUTDOWN_EXIT_IN_TASK_URL";

#[test]
fn leases_dropped_before_exit_in_a_task_leave_no_key() {
    const COUNT: usize = 20;
    if let Ok(url) = std::env::var(EXIT_IN_TASK) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redlock = builder([url]).runtime(runtime.handle().clone()).build().unwrap();
        runtime.block_on(async {
            let locks = (0..COUNT).map(|number| redlock.lock(format!("job-{number}")));
            let leases = futures_util::future::join_all(locks.map(|lock| lock.acquire())).await;
            drop(leases.into_iter().collect::<Result<Vec<_>, _>>().unwrap());
            std::process::exit(0);
        });
    }
    let server = Server::start();
    let name = "shutdown::leases_dropped_before_exit_in_a_task_leave_no_key";
    for _ in 0..10 {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact", "--nocapture"]).env(EXIT_IN_TASK, server.url());
        assert!(program.stdout(std::process::Stdio::null()).status().unwrap().success());
        assert_eq!(server.ask("DBSIZE"), ":0");
    }
}

/// An acquire ends on its own thread or task, and then deletes the votes of its last round.
#[tokio::test]
async fn shutdown_waits_until_acquires_have_ended() {
    let redlock = memory();
    let lease = redlock.lock("job").acquire().await.unwrap();
    let mut waiter = Box::pin(redlock.lock("job").acquire());
    assert!(futures_util::poll!(&mut waiter).is_pending());
    let ended = Cell::new(false);
    let shutdown = async {
        assert_eq!(redlock.shutdown(Duration::ZERO).await.unwrap(), 1);
        assert!(ended.get(), "the acquire still waits");
    };
    let waits = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(waiter.await.unwrap_err().kind(), ErrorKind::Closed);
        ended.set(true);
    };
    tokio::join!(shutdown, waits);
    assert!(!lease.is_held());
}

#[tokio::test]
async fn shutdown_continues_after_its_future_is_dropped() {
    let server = Server::start();
    for polled in [false, true] {
        for redlock in [client([&server]), memory()] {
            let lease = redlock.lock("job").ttl(millis(60_000)).acquire().await.unwrap();
            let lost = lease.lost();
            let mut shutdown = Box::pin(redlock.shutdown(millis(50)));
            if polled {
                assert!(futures_util::poll!(&mut shutdown).is_pending());
            }
            drop(shutdown);
            let error = tokio::time::timeout(millis(5000), lost).await.unwrap();
            assert_eq!(error.reason(), Some("revoked"), "{error}");
            assert!(lease.release().await.is_err());
        }
    }
}
