//! Processes that may open no more files, or start no more threads: a clear error at the first use, and no panic; once
//! there is room again, the next use works.
//!
//! In a process of its own: this test binary, told by the environment what is scarce.

use std::process::Command;
use std::time::Duration;

use redlock::{ErrorKind, Redlock};

use crate::support::Server;

const SCARCE: &str = "SCARCE";
const URL: &str = "SCARCE_URL";

/// Every file descriptor that this process may have.
fn all_files() -> Vec<std::fs::File> {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid limit for this process alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// Run again by the tests below, in a process of its own.
#[test]
fn a_process_without() {
    let Ok(what) = std::env::var(SCARCE) else { return };
    let redlock = Redlock::builder([std::env::var(URL).unwrap()]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = if what == "files" { all_files() } else { Vec::new() };
    runtime.block_on(async {
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("background thread cannot be started"), "{text}");
        assert!(text.contains("os error"), "{text}");
        lock.inspect().await.unwrap_err();
        redlock.force_release("job").await.unwrap_err();
        drop(files);
        if what == "files" {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    });
    // Connected now; a second client finds no descriptor for its connection.
    if what == "files" {
        let _files = all_files();
        let other = Redlock::builder([std::env::var(URL).unwrap()]).build().unwrap();
        let lock = other.lock("job").wait(Duration::ZERO);
        let error = runtime.block_on(lock.acquire()).unwrap_err().to_string();
        assert!(error.contains("cannot connect") && error.contains("os error 24"), "{error}");
    }
    println!("without {what}: as it should be");
}

fn run(what: &str, set: impl FnOnce(&mut Command) -> &mut Command) {
    let server = Server::start();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "scarce::a_process_without", "--nocapture", "--test-threads=1"]);
    set(child.env(SCARCE, what).env(URL, server.url()));
    let out = child.output().unwrap();
    let said = format!("{out:?}");
    assert!(said.contains("as it should be") && !said.contains("panicked"), "{said}");
}

#[test]
fn no_files() {
    run("files", |child| child);
}

#[test]
fn no_threads() {
    // So large a stack that no thread can have one; the test's own is the main thread's.
    run("threads", |child| child.env("RUST_MIN_STACK", (1_u64 << 47).to_string()));
}
