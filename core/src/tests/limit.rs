//! A time limit for each test of a binary. It ends the binary and names the test, so that a test that hangs does not
//! block the run.
//!
//! It applies to every test, without a call in the test. libtest runs each test on a thread with its name, of which the
//! system keeps 15 bytes. libtest itself prints the whole name after a minute. No limit applies if an environment
//! variable sets the duration of a test (`SEEDS`, `RUNS`, `FUZZ`).

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);
/// Environment variables that set the duration of a test.
const CHOSEN: [&str; 4] = ["SEEDS", "RUNS", "FUZZ", "FUZZ_S"];
/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        if CHOSEN.iter().all(|name| std::env::var_os(name).is_none()) {
            // The stack is small, because a test sets a huge default. A failed start is ignored, because in some tests
            // no thread can start.
            let _ = std::thread::Builder::new().stack_size(256 << 10).spawn(watch);
        }
    }
    start
};

fn watch() {
    let limit = std::env::var("REDLOCK_TEST_LIMIT").ok().and_then(|limit| limit.parse().ok());
    let limit = limit.map_or(LIMIT, Duration::from_secs_f64);
    let mut since = HashMap::new();
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        let running = tests();
        since.retain(|test, _| running.contains(test));
        for test in running {
            let began = *since.entry(test.clone()).or_insert_with(Instant::now);
            if began.elapsed() > limit {
                eprintln!("\ntest {} took longer than {limit:?}: the run is ended", test.1);
                std::process::exit(101);
            }
        }
    }
}

/// The threads that run a test, by number and name.
fn tests() -> Vec<(String, String)> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = threads.filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        Some((thread.file_name().into_string().ok()?, name.trim_end().to_owned()))
    });
    named.filter(|(_, name)| name.contains("::")).collect()
}

#[test]
fn hangs_if_requested() {
    if std::env::var_os("REDLOCK_TEST_HANG").is_some() {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn names_a_test_that_hangs() {
    let mut this = std::process::Command::new(std::env::current_exe().unwrap());
    // The path of this module differs between the programs that include it.
    let test = format!("{}::hangs_if_requested", module_path!().split_once("::").unwrap().1);
    let hangs = this.args([&*test, "limit::nothing", "--test-threads=2"]);
    CHOSEN.iter().for_each(|name| _ = hangs.env_remove(name));
    let done = hangs.env("REDLOCK_TEST_HANG", "1").env("REDLOCK_TEST_LIMIT", "0.5").output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(101));
    let output = String::from_utf8(done.stderr).unwrap();
    let expected = format!("test {} took longer than 500ms", &test[..15]);
    assert!(output.contains(&expected), "{output}");
}
