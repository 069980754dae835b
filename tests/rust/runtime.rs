//! A client that was told of its runtime: whose tasks write and read by themselves what they wait for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::Redlock;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::support::{Server, builder, millis};

/// One of each kind.
pub(crate) fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    [Builder::new_current_thread().enable_all().build().unwrap(), multi.unwrap()]
}

pub(crate) fn client_of(runtime: &Handle, server: &Server) -> Redlock {
    builder([server.url()]).runtime(runtime.clone()).build().unwrap()
}

/// In a task of the runtime, and not beside it.
pub(crate) fn in_task<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(runtime.spawn(work)).unwrap()
}

pub(crate) async fn pairs(client: &Redlock, name: &str, count: u32) {
    let lock = client.lock(name);
    for _ in 0..count {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) fn empties(server: &Server) {
    let begun = Instant::now();
    while server.ask("DBSIZE") != ":0" {
        assert!(begun.elapsed() < millis(2000), "{}", server.ask("KEYS *"));
        thread::sleep(millis(5));
    }
}

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
#[test]
fn a_pair_wakes_no_other_thread() {
    if std::env::var_os(COUNTED).is_some() {
        return count_pairs();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "runtime::a_pair_wakes_no_other_thread", "--nocapture"]);
    let ran = child.env(COUNTED, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(said.matches("counted").count(), runtimes().len(), "{said}");
}

#[test]
fn an_acquire_that_is_cancelled_leaves_no_key() {
    for runtime in runtimes() {
        let server = Server::start();
        let client = client_of(runtime.handle(), &server);
        let got = in_task(&runtime, async move {
            let mut got = 0;
            pairs(&client, "warm", 10).await;
            for turn in 0..400 {
                let lock = client.lock(format!("job-{turn}"));
                let after = async {
                    for _ in 0..turn % 40 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    biased;
                    lease = lock.acquire() => drop((lease.unwrap(), got += 1)),
                    () = after => {}
                }
            }
            got
        });
        assert!(got < 400, "{got}");
        empties(&server);
    }
}

/// Whoever asks, and wherever: one at a time has it.
#[test]
fn two_clients_in_two_runtimes_and_threads_take_turns() {
    let server = Server::start();
    let [one, two] = runtimes();
    let clients = [client_of(one.handle(), &server), client_of(one.handle(), &server)];
    let inside = Arc::new(AtomicBool::new(false));
    let work = |client: &Redlock| {
        let (lock, client, inside) = (client.lock("job"), client.clone(), Arc::clone(&inside));
        async move {
            for number in 0..40 {
                let lease = lock.acquire().await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two have it");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                lease.release().await.unwrap();
                pairs(&client, &format!("own-{number}"), 1).await;
            }
        }
    };
    let tasks = |runtime: &Runtime| {
        let tasks = clients.iter().chain(&clients).map(|client| runtime.spawn(work(client)));
        runtime.block_on(join_all(tasks)).into_iter().for_each(Result::unwrap);
    };
    thread::scope(|all| {
        for client in &clients {
            all.spawn(|| {
                for _ in 0..40 {
                    let lease = client.lock("job").acquire_blocking().unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two have it");
                    inside.store(false, Ordering::SeqCst);
                    lease.release_blocking().unwrap();
                }
            });
        }
        all.spawn(|| tasks(&two));
        tasks(&one);
    });
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// Many at once, over several nodes: what they ask goes out together, and all of it.
#[test]
fn many_tasks_over_several_nodes() {
    for runtime in runtimes() {
        let servers = [Server::start(), Server::start(), Server::start()];
        let urls = servers.iter().map(Server::url);
        let built = builder(urls).restart_guard(Duration::ZERO).runtime(runtime.handle().clone());
        let client = built.build().unwrap();
        let tasks = (0..100).map(|number| {
            let client = client.clone();
            runtime.spawn(async move { pairs(&client, &format!("job-{number}"), 20).await })
        });
        runtime.block_on(join_all(tasks)).into_iter().for_each(Result::unwrap);
        servers.iter().for_each(empties);
    }
}
