//! The ways in which a future can run. Each decides which thread writes and reads the connections.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Duration;

use redlock::{Builder, Redlock, ffi};
use tokio::runtime::Runtime;

use super::builder;
use super::runtimes::block_on_thread;

/// What writes to and reads from the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A blocking thread.
    Thread,
    /// An event loop, as in Python and Node.js.
    Loop,
    /// The tokio runtime of the client.
    Runtime,
    /// The background thread.
    Background,
}

/// Runs futures in one of the ways.
pub(crate) struct Driver {
    pub(crate) kind: Kind,
    events: Option<ffi::Driver<()>>,
    runtime: Runtime,
}

impl Driver {
    /// One of each kind.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [Kind::Thread, Kind::Loop, Kind::Runtime, Kind::Background].into_iter().map(Self::of)
    }

    pub(crate) fn of(kind: Kind) -> Self {
        let events = (kind == Kind::Loop).then(|| ffi::Driver::on_loop().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { kind, events, runtime }
    }

    /// A builder of clients that this driver serves.
    pub(crate) fn builder(&self, url: String) -> Builder {
        let builder = builder([url]).restart_guard(Duration::ZERO);
        if self.kind == Kind::Runtime {
            builder.runtime(self.runtime.handle().clone())
        } else {
            builder
        }
    }

    /// A client that has used its connection in this way.
    pub(crate) fn client(&self, url: String) -> Redlock {
        self.warmed(self.builder(url))
    }

    /// A client whose votes wait for replies that a proxy holds back.
    pub(crate) fn patient(&self, url: String) -> Redlock {
        self.warmed(self.builder(url).node_timeout(Duration::from_secs(60)))
    }

    fn warmed(&self, builder: Builder) -> Redlock {
        let client = builder.build().unwrap();
        self.warm(&client);
        client
    }

    /// Acquires and releases until this driver reads its own replies.
    pub(crate) fn warm(&self, client: &Redlock) {
        for _ in 0..50 {
            let lock = client.lock("warm").ttl(Duration::from_secs(600));
            self.run(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
    }

    /// Runs a future to completion. Between two calls, the loop or the runtime is blocked.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.kind {
            Kind::Thread => {
                let mut work = pin!(work);
                loop {
                    if let Poll::Ready(value) = ffi::wait(work.as_mut(), Duration::from_secs(60)) {
                        return value;
                    }
                }
            }
            Kind::Loop => self.turn_until(work),
            Kind::Runtime => self.runtime.block_on(self.runtime.spawn(work)).unwrap(),
            Kind::Background => block_on_thread(work),
        }
    }

    /// Starts a future on the event loop. Returns whether its commands are written at once.
    pub(crate) fn writes_at_once(&self, work: impl Future<Output = ()> + Send + 'static) -> bool {
        let events = self.events.as_ref().unwrap();
        events.enqueue(work, ());
        events.wake().1
    }

    /// Turns the event loop until the future completes.
    fn turn_until<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let events = self.events.as_ref().unwrap();
        let (sender, results) = channel();
        events.enqueue(async move { sender.send(work.await).unwrap() }, ());
        if !events.wake().1 {
            events.flush();
        }
        loop {
            if let Ok(result) = results.try_recv() {
                return result;
            }
            let fd = events.descriptor().unwrap();
            let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: there is one, and it is open.
            unsafe { libc::poll(&raw mut polled, 1, -1) };
            events.read_available();
        }
    }
}
