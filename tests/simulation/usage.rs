//! What clients do with locks: acquire, hold, extend, and end it one way or another.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::client::Redlock;
use crate::clock::Clock;
use crate::lease::{Hold, Lease};
use crate::options::Names;

use super::clock::ClientClock;
use super::monitor::Monitor;
use super::play::Task;
use super::scenario::{End, Use};
use super::world::MS;

/// What the tasks of one client share with the player.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: usize,
    pub(super) redlock: Redlock,
    pub(super) clock: ClientClock,
    pub(super) monitor: Arc<Mutex<Monitor>>,
    pub(super) spawned: Arc<Mutex<Vec<(usize, Task)>>>,
    pub(super) fencing: bool,
}

/// One use of a lock, from acquire to its end.
pub(super) fn lock(client: Client, how: Use) -> impl Future<Output = ()> + Send {
    let ms = Duration::from_millis;
    async move {
        let mut lock = client.redlock.lock(Names::from(how.names.as_slice())).ttl(ms(how.ttl));
        lock = lock.renew(how.renew).fencing(client.fencing);
        if let Some(wait) = how.wait {
            lock = lock.wait(ms(wait));
        }
        if let Some(max_hold) = how.max_hold {
            lock = lock.max_hold(ms(max_hold));
        }
        let before = client.monitor.lock().unwrap().tokens();
        let Some(lease) = acquire(&client, &lock, &how).await else {
            if how.must {
                client.monitor.lock().unwrap().stuck(client.id);
            }
            return;
        };
        let hold = lease.clone();
        client.monitor.lock().unwrap().granted(client.id, &how.names, &hold, &before);
        watch(&client, &hold);
        sleep(&client, how.hold / 2).await;
        if let Some(extend) = how.extend {
            let _ = hold.extend(ms(extend)).await;
        }
        sleep(&client, how.hold / 2).await;
        match how.end {
            End::Release => drop(lease.release().await),
            End::Drop => drop(lease),
            End::Abandon => drop(lease.into_hold().abandon()),
            End::Keep => {
                sleep(&client, how.ttl * 4).await;
                drop(lease);
            }
        }
    }
}

pub(super) async fn later(client: Client, after: u64, how: Use) {
    sleep(&client, after).await;
    lock(client, how).await;
}

async fn acquire(client: &Client, lock: &crate::Lock, how: &Use) -> Option<Lease> {
    let node_timeout = how.ttl / 5;
    let now = client.clock.world.lock().unwrap().now;
    // A `wait` of 0 is one round, in which fencing may ask a second time.
    let round = if client.fencing { 2 * node_timeout } else { node_timeout };
    let allowed = how.wait.map(|wait| if wait == 0 { round } else { wait });
    let allowed = allowed.map(|wait| now + wait * MS * 101 / 100);
    let waiting = client.monitor.lock().unwrap().begins(client.id, allowed);
    let acquire = lock.acquire();
    let lease = match how.cancel {
        None => acquire.await.ok(),
        Some(cancel) => {
            tokio::select! {
                biased;
                lease = acquire => lease.ok(),
                () = sleep(client, cancel) => None,
            }
        }
    };
    client.monitor.lock().unwrap().ends(waiting);
    lease
}

async fn sleep(client: &Client, ms: u64) {
    client.clock.sleep_until(client.clock.now() + Duration::from_millis(ms)).await;
}

/// Notes when the holder is told of a loss.
fn watch(client: &Client, hold: &Hold) {
    let (lost, hold, monitor) = (hold.lost(), hold.clone(), Arc::clone(&client.monitor));
    let task = async move {
        lost.await;
        monitor.lock().unwrap().told(&hold);
    };
    client.spawned.lock().unwrap().push((client.id, Box::pin(task)));
}
