//! A client that was told of its runtime: whose tasks write and read by themselves what they wait for.

use crate::support::runtimes::{client_of, in_task, pairs, runtimes};
use crate::support::{Server, millis};

/// How often the background thread had to wait, and so was woken.
#[cfg(target_os = "linux")]
fn switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let ours = tasks.filter(|task| read(task.join("comm")).trim() == "redlock");
    let status = ours.map(|task| read(task.join("status"))).next().unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Says to the test that it is the process of its own.
#[cfg(target_os = "linux")]
const COUNTED: &str = "COUNTED_PAIRS";

#[cfg(target_os = "linux")]
fn count_pairs() {
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
        // Its own rhythm, a few times a second; it is 2,000 and more where it does the reading.
        assert!(counted < 250, "{counted}");
        println!("counted");
    }
}

/// In a process of its own: the background thread is all clients'.
#[cfg(target_os = "linux")]
// Slow: the wake-ups of a thread are counted, which a busy machine disturbs.
#[test]
fn a_pair_wakes_no_other_thread() {
    if std::env::var_os(COUNTED).is_some() {
        return count_pairs();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "slow::runtime::a_pair_wakes_no_other_thread", "--nocapture"]);
    let ran = child.env(COUNTED, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(said.matches("counted").count(), runtimes().len(), "{said}");
}
