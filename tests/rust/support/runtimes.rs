//! Tokio runtimes of both kinds, and clients that use them.

use std::future::Future;

use redlock::Redlock;
use tokio::runtime::{Builder, Handle, Runtime};

use super::{Server, builder, eventually_blocking};

/// One runtime of each kind.
pub(crate) fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    [Builder::new_current_thread().enable_all().build().unwrap(), multi.unwrap()]
}

pub(crate) fn client_of(runtime: &Handle, server: &Server) -> Redlock {
    builder([server.url()]).runtime(runtime.clone()).build().unwrap()
}

/// Runs the work in a task of the runtime, not on the calling thread.
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

pub(crate) fn wait_empty(server: &Server) {
    eventually_blocking("no key", || server.ask("DBSIZE") == ":0");
}
