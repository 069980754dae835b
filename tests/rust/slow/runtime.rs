//! A client with a runtime, whose tasks write and read for themselves.

use crate::support::runtimes::{client_of, in_task, pairs, runtimes};
use crate::support::{Server, millis};

/// How often the background thread was blocked and then woken.
#[cfg(target_os = "linux")]
fn switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let ours = tasks.filter(|task| read(task.join("comm")).trim() == "redlock");
    let status = ours.map(|task| read(task.join("status"))).next().unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Marks the separate process of the test.
#[cfg(target_os = "linux")]
const COUNTED: &str = "COUNTED_PAIRS";

#[cfg(target_os = "linux")]
fn counts_pairs_in_a_separate_process() {
    for runtime in runtimes() {
        let server = Server::start();
        let client = client_of(runtime.handle(), &server);
        let counted = in_task(&runtime, async move {
            pairs(&client, "warm", 100).await;
            tokio::time::sleep(millis(500)).await;
            pairs(&client, "warm", 10).await;
            let before = switches();
            pairs(&client, "job", 1000).await;
            switches() - before
        });
        // Its regular wake-ups are a few per second. If it does the reading, there are 2,000 and more.
        assert!(counted < 250, "{counted}");
        println!("counted");
    }
}

/// In a separate process, because all clients share the background thread.
#[cfg(target_os = "linux")]
// Slow: the wake-ups of a thread are counted, which a busy machine disturbs.
#[test]
fn pair_wakes_no_other_thread() {
    if std::env::var_os(COUNTED).is_some() {
        return counts_pairs_in_a_separate_process();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "slow::runtime::pair_wakes_no_other_thread", "--nocapture"]);
    let ran = child.env(COUNTED, "1").output().unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(output.matches("counted").count(), runtimes().len(), "{output}");
}
