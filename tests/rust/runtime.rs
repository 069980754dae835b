//! A client with a runtime, whose tasks write and read for themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use redlock::Redlock;
use tokio::runtime::Runtime;

use crate::support::runtimes::{client_of, in_task, pairs, runtimes, wait_empty};
use crate::support::{Server, builder};

#[test]
fn cancelled_acquire_leaves_no_key() {
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
        wait_empty(&server);
    }
}

/// Callers in different runtimes and threads. One at a time holds the lock.
#[test]
fn clients_in_two_runtimes_exclude_each_other() {
    let server = Server::start();
    let [one, two] = runtimes();
    let clients = [client_of(one.handle(), &server), client_of(one.handle(), &server)];
    let inside = Arc::new(AtomicBool::new(false));
    let work = |client: &Redlock| {
        let (lock, client, inside) = (client.lock("job"), client.clone(), Arc::clone(&inside));
        async move {
            for number in 0..40 {
                let lease = lock.acquire().await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
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
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
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

/// Many callers over several nodes. Their commands are sent together, and none is missing.
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
        servers.iter().for_each(wait_empty);
    }
}
