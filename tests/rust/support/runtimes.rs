//! Tokio runtimes of both kinds, and clients that use them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

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

/// Wakes a parked thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the work without a runtime.
pub(crate) fn block_on_thread<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
