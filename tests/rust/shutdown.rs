//! How leases and clients end: released during a hold, in order, in a hurry, immediately.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures_util::FutureExt;
use redlock::ffi::fail_memory;
use redlock::testing::{TestClock, TestRedlock};
use redlock::{ErrorKind, Redlock};

use crate::support::{
    Gateway, Mode, Proxy, Server, Verdict, builder, client, eventually, eventually_blocking, millis,
};

fn memory() -> Redlock {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed);
    Redlock::builder([format!("memory://endings-{name}")]).build().unwrap()
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

/// A program may keep the object of a lease for long after its end.
#[tokio::test]
async fn ended_leases_keep_no_connection_of_a_closed_client() {
    let server = Server::start();
    for how in ["released", "detached", "revoked", "attached"] {
        let redlock = client([&server]);
        let lease = redlock.lock(how).acquire().await.unwrap().into_handle();
        let twin = redlock.lock("attached").attach(lease.token()).await;
        match how {
            "released" | "attached" => lease.release().await.unwrap(),
            "detached" => assert!(lease.detach()),
            _ => assert_eq!(redlock.release_all().await.unwrap(), 1),
        }
        redlock.close();
        let closed = || !server.text("CLIENT LIST").contains(" name=redlock ");
        eventually("the connections are closed", closed).await;
        assert!(!lease.is_held());
        assert_eq!(twin.is_ok_and(|twin| !twin.is_held()), how == "attached");
    }
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

/// Such as the acquire of an event loop that waits for the shutdown in a blocking call.
#[tokio::test]
async fn shutdown_reports_an_acquire_that_its_caller_does_not_end() {
    let server = Server::start();
    let redlock = builder([server.url()]).build().unwrap();
    let mut acquire = Box::pin(redlock.lock("job").ttl(Duration::from_secs(60)).acquire());
    assert!((&mut acquire).now_or_never().is_none());
    eventually("its key", || server.ask("EXISTS lock:job") == ":1").await;
    let error = redlock.shutdown(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("acquires have not ended"), "{error}");
    drop(acquire);
    eventually("its delete", || server.ask("EXISTS lock:job") == ":0").await;
}

/// Its connection was being opened, so that there was nothing to delete.
#[tokio::test]
async fn acquire_sends_no_vote_after_a_shutdown() {
    let server = Server::start();
    let votes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&votes);
    let gateway = Gateway::to(server.port, move |words, _| {
        counted
            .fetch_add(words.iter().filter(|word| *word == "lock:job").count(), Ordering::Relaxed);
        Verdict::Pass
    });
    let redlock = builder([gateway.url()]).build().unwrap();
    let lock = redlock.lock("job");
    let mut acquire = Box::pin(lock.try_acquire());
    assert!((&mut acquire).now_or_never().is_none());
    assert_eq!(redlock.shutdown(Duration::ZERO).await.unwrap(), 0);
    assert_eq!(acquire.await.unwrap_err().kind(), ErrorKind::Closed);
    drop((lock, redlock));
    // A connection ends after its last command.
    let clients = || server.info("clients", "connected_clients");
    eventually("the end of its connections", || clients().as_deref() == Some("1")).await;
    assert_eq!(votes.load(Ordering::Relaxed), 0);
}

/// Otherwise it could get its lock afterwards.
#[tokio::test]
async fn shutdown_ends_an_acquire_without_wait() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let redlock = builder([proxy.url()]).node_timeout(millis(9000)).build().unwrap();
    redlock.lock("job").acquire().await.unwrap().release().await.unwrap();
    proxy.set(Mode::Blackhole);
    let lock = redlock.lock("job");
    let acquire = tokio::spawn(async move { lock.try_acquire().await });
    eventually("an acquire", || redlock.stats().waiting == 1).await;
    drop(redlock.shutdown(Duration::ZERO));
    assert_eq!(acquire.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

/// Its clock stands still.
#[tokio::test]
async fn shutdown_without_timeout_ends_while_a_test_node_fails() {
    let redlock = TestRedlock::with_clock(&TestClock::new()).unwrap();
    let _lease = redlock.lock("job").acquire().await.unwrap();
    redlock.fail();
    let error = redlock.shutdown(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn shutdown_reports_the_delete_of_a_dropped_lease() {
    let redlock = Redlock::builder(["memory://pending"]).build().unwrap();
    let lease = redlock.lock("job").acquire().await.unwrap();
    fail_memory("pending", true);
    drop(lease);
    let error = redlock.shutdown(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("releases are not confirmed"), "{error}");
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
