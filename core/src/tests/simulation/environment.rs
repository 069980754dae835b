//! The environment of one client's connections: virtual time, simulated streams, and tasks that the player polls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::clock::{Clock, Instant, Sleep};
use crate::runtime::environment::simulated::{Environment, Stream};

use super::clock::ClientClock;
use super::usage::Spawned;
use super::world::World;

pub(super) struct ClientEnvironment {
    pub(super) client: usize,
    /// The clock of the machine runs as fast as that of the client.
    pub(super) clock: ClientClock,
    pub(super) spawned: Arc<Mutex<Vec<Spawned>>>,
    /// The number of pending deletes and of unsent votes that it keeps, if it is small.
    pub(super) kept: Option<usize>,
}

impl Environment for ClientEnvironment {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        self.clock.sleep_until(self.clock.now() + time)
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.spawned.lock().unwrap().push(Spawned::Task(self.client, work));
    }

    fn limit(&self, limit: usize) -> usize {
        self.kept.map_or(limit, |kept| limit.min(kept))
    }

    fn open(&self, _host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (client, clock) = (self.client, self.clock.clone());
        Box::pin(async move {
            let round_trip = {
                let mut world = clock.world.lock().unwrap();
                let remote = world.remote_of(port).ok_or(io::ErrorKind::ConnectionRefused)?;
                Duration::from_nanos(2 * world.delay(client, remote))
            };
            clock.sleep_until(clock.now() + round_trip).await;
            let conn = clock.world.lock().unwrap().accept(client, port);
            let conn = conn.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (world, reset) = (clock.world, AtomicBool::new(false));
            Ok(Box::new(SimulatedStream { world, conn, reset }) as Box<dyn Stream>)
        })
    }
}

/// The client's end of a connection.
struct SimulatedStream {
    world: Arc<Mutex<World>>,
    conn: usize,
    reset: AtomicBool,
}

impl Stream for SimulatedStream {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.world.lock().unwrap().read_from(self.conn, into);
        read.ok_or(io::ErrorKind::WouldBlock.into())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.world.lock().unwrap().write(self.conn, bytes) {
            Some(0) => Err(io::ErrorKind::WouldBlock.into()),
            Some(count) => Ok(count),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.world.lock().unwrap().poll_readable(self.conn, cx).map(Ok)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.world.lock().unwrap().poll_writable(self.conn, cx).map(Ok)
    }

    fn reset_on_drop(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }
}

impl Drop for SimulatedStream {
    fn drop(&mut self) {
        // After a panic of a test, its world is poisoned.
        if let Ok(mut world) = self.world.lock() {
            world.hang_up(self.conn, self.reset.load(Ordering::Relaxed));
        }
    }
}
