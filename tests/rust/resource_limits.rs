//! Processes that may open no more files or start no more threads. The first use returns a clear error and does not
//! panic. Once the limit is lifted, the next use works.
//!
//! Each test runs this test binary in a separate process. The environment specifies which resource is limited.

use std::process::Command;
use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::Server;

const LIMITED_RESOURCE: &str = "LIMITED_RESOURCE";
const URL: &str = "LIMITED_URL";

/// Every file descriptor that this process may have.
fn all_files() -> Vec<std::fs::File> {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid limit for this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// The tests below run this in a separate process.
#[test]
fn process_with_limited_resource() {
    let Ok(what) = std::env::var(LIMITED_RESOURCE) else { return };
    let redlock = Redlock::builder([std::env::var(URL).unwrap()]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = if what == "files" { all_files() } else { Vec::new() };
    runtime.block_on(async {
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("cannot start the background thread"), "{text}");
        assert!(text.contains("os error"), "{text}");
        lock.inspect().await.unwrap_err();
        redlock.force_release("job").await.unwrap_err();
        drop(files);
        if what == "files" {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    });
    // This client is connected now. A second one finds no file descriptor.
    if what == "files" {
        let _files = all_files();
        let other = Redlock::builder([std::env::var(URL).unwrap()]).build().unwrap();
        let lock = other.lock("job").wait(Duration::ZERO);
        let error = runtime.block_on(lock.acquire()).unwrap_err().to_string();
        assert!(error.contains("cannot connect") && error.contains("os error 24"), "{error}");
    }
    println!("without {what}: behaves correctly");
}

fn run(what: &str, set: impl FnOnce(&mut Command) -> &mut Command) {
    let server = Server::start();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "resource_limits::process_with_limited_resource",
        "--nocapture",
        "--test-threads=1",
    ]);
    set(child.env(LIMITED_RESOURCE, what).env(URL, server.url()));
    let out = child.output().unwrap();
    let output = format!("{out:?}");
    assert!(output.contains("behaves correctly") && !output.contains("panicked"), "{output}");
}

#[test]
fn reports_exhausted_file_descriptors() {
    run("files", |child| child);
}

#[test]
fn reports_exhausted_threads() {
    // A stack size that no thread can have. The test itself runs on the main thread.
    run("threads", |child| child.env("RUST_MIN_STACK", (1_u64 << 47).to_string()));
}

/// The test below runs this in a separate process.
#[test]
fn process_whose_threads_cannot_read_sockets() {
    let Ok(url) = std::env::var(THREADS_URL) else { return };
    let redlock = Redlock::builder([url]).node_timeout(Duration::from_secs(5)).build().unwrap();
    let pair = |name: String| {
        let lease = redlock.lock(name).wait(Duration::from_secs(20)).acquire_blocking().unwrap();
        lease.extend_blocking(Duration::from_secs(30)).unwrap();
        lease.release_blocking().unwrap();
    };
    pair("main".into());
    // The stack is too small for the work of a connection.
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(64 << 10);
        small.spawn_scoped(scope, || pair("small".into())).unwrap().join().unwrap();
    });
    // No file descriptor is left for the thread's waker.
    let files = all_files();
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || pair(format!("many-{number}")));
        }
    });
    drop(files);
    // More running threads than file descriptors.
    let (stay, leave) = std::sync::mpsc::channel::<()>();
    let leave = std::sync::Mutex::new(leave);
    std::thread::scope(|scope| {
        let (done, threads) = std::sync::mpsc::channel();
        for number in 0..100 {
            let (pair, done, leave) = (&pair, done.clone(), &leave);
            scope.spawn(move || {
                pair(format!("stays-{number}"));
                done.send(()).unwrap();
                let _ = leave.lock().unwrap().recv();
            });
            threads.recv().unwrap();
        }
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        println!("{open} descriptors are open");
        drop(stay);
    });
    println!("behaves correctly");
}

const THREADS_URL: &str = "LIMITED_THREADS_URL";

#[test]
fn threads_without_stack_or_descriptor_keep_deadlines() {
    let server = Server::start();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "resource_limits::process_whose_threads_cannot_read_sockets";
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let out = child.env(THREADS_URL, server.url()).output().unwrap();
    let output = format!("{out:?}");
    assert!(output.contains("behaves correctly") && !output.contains("panicked"), "{output}");
    assert_eq!(server.ask("DBSIZE"), ":0");
}
