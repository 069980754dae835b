//! Lock operations of clients: acquire, hold, extend, and the ways to end a lease.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::Redlock;
use crate::clock::Clock;
use crate::error::ErrorKind;
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Names;
use crate::node::{Node, Side};

use super::action::{Also, End, Use};
use super::clock::ClientClock;
use super::monitor::{Monitor, Tokens};
use super::play::Task;
use super::semaphores::LIMIT;
use super::world::{END, MS};

/// The state that the tasks of one client share with the player.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: usize,
    pub(super) redlock: Redlock,
    pub(super) clock: ClientClock,
    pub(super) monitor: Arc<Mutex<Monitor>>,
    pub(super) spawned: Arc<Mutex<Vec<Spawned>>>,
    pub(super) fencing: bool,
    /// Weak, because a node ends with its client.
    pub(super) nodes: Vec<Weak<dyn Node>>,
}

/// A request of a task to the player.
pub(super) enum Spawned {
    Task(usize, Task),
    /// This client continues the lease of this token. The other client then ends its own lease.
    HandOver(usize, String, Use, Before),
}

/// A lease that is handed over, and the channel that reports it.
pub(super) struct Before(LeaseHandle, oneshot::Sender<()>);

/// One use of a lock, from acquire to its end.
pub(super) fn lock(client: Client, how: Use) -> Task {
    Box::pin(async move {
        let lock = client.lock(&how);
        let before = client.monitor.lock().unwrap().tokens();
        let Some(lease) = acquire(&client, &lock, &how).await else {
            if how.must {
                client.monitor.lock().unwrap().stuck(client.id);
            }
            return;
        };
        hold(client, lease, how, before).await;
    })
}

/// Uses of a lock, one right after the other.
pub(super) fn again(client: Client, how: Use, turns: u32) -> Task {
    Box::pin(async move {
        for _ in 0..turns {
            lock(client.clone(), how.clone()).await;
        }
    })
}

/// A lease that continues in another client, or twice in one client.
pub(super) fn continued(client: Client, token: String, how: Use, before: Option<Before>) -> Task {
    Box::pin(async move {
        let attached = client.lock(&how).attach(&token).await;
        if let Some(Before(former, _handed)) = &before {
            let mut monitor = client.monitor.lock().unwrap();
            monitor.hands_over.remove(&token);
            if attached.is_ok() {
                monitor.gives_up(former);
                former.detach();
            }
        }
        let Ok(lease) = attached else { return };
        hold(client, lease, how, Tokens::new()).await;
    })
}

impl Client {
    /// Whether two clients share the lease. A release by one of them ends it for the other one, which is notified
    /// shortly after. No more is guaranteed in that time.
    fn hands_over(&self) -> bool {
        let monitor = self.monitor.lock().unwrap();
        monitor.hands_over.values().any(|client| *client == self.id)
    }

    fn lock(&self, how: &Use) -> crate::Lock {
        let ms = Duration::from_millis;
        let names = || Names::from(how.names.as_slice());
        let lock = match how.side {
            None if how.is_of_semaphore() => {
                self.redlock.semaphore(how.names[0], LIMIT).permits(how.permits)
            }
            None => self.redlock.lock(names()).fencing(self.fencing),
            Some(Side::Read) => self.redlock.rwlock(names()).read(),
            Some(Side::Write) => self.redlock.rwlock(names()).write().fencing(self.fencing),
        };
        let mut lock = lock.ttl(ms(how.ttl)).renew(how.renew).min_hold(ms(how.min_hold));
        if let Some(timeout) = how.node_timeout {
            lock = lock.node_timeout(ms(timeout));
        }
        if let Some(wait) = how.wait {
            lock = lock.wait(ms(wait));
        }
        if let Some(max_hold) = how.max_hold {
            lock = lock.max_hold(ms(max_hold));
        }
        lock
    }
}

/// Everything that is done with a lease after it is granted.
fn hold(client: Client, lease: Lease, how: Use, before: Tokens) -> Task {
    Box::pin(async move {
        let hold = lease.handle();
        let now = client.clock.world.lock().unwrap().now;
        client.monitor.lock().unwrap().granted(client.id, &how, &hold, &before, now);
        watch(&client, &hold);
        sleep(&client, how.hold / 2).await;
        if let Some(extend) = how.extend {
            let _ = hold.extend(Duration::from_millis(extend)).await;
        }
        also(&client, &hold, how.also).await;
        sleep(&client, how.hold / 2).await;
        if !matches!(how.end, End::Keep) {
            client.monitor.lock().unwrap().gives_up(&hold);
        }
        match how.end {
            End::Release => {
                if lease.release().await.is_ok() {
                    client.monitor.lock().unwrap().confirmed.insert(hold.token().to_owned());
                }
            }
            End::Drop => drop(lease),
            End::Detach => drop(lease.into_handle().detach()),
            End::Keep => {
                sleep(&client, how.ttl * 4).await;
                client.monitor.lock().unwrap().gives_up(&hold);
                drop(lease);
            }
        }
    })
}

async fn also(client: &Client, hold: &LeaseHandle, also: Also) {
    let token = hold.token().to_owned();
    let spawn = |spawned| client.spawned.lock().unwrap().push(spawned);
    match also {
        Also::Nothing => {}
        Also::Nested(inner) => lock(client.clone(), *inner).await,
        Also::Second(second) => {
            spawn(Spawned::Task(client.id, continued(client.clone(), token, *second, None)));
        }
        // A lease that was released meanwhile is not handed over.
        Also::HandOver(..) if !hold.is_held() => {}
        Also::HandOver(to, next) => {
            client.monitor.lock().unwrap().hands_over.insert(token.clone(), client.id);
            let (handed, over) = oneshot::channel();
            let before = Before(hold.clone(), handed);
            spawn(Spawned::HandOver(to, token, *next, before));
            let _ = over.await;
        }
    }
}

/// Acquires a lock after a delay. With `by_force`, deletes its keys before that.
pub(super) fn later(client: Client, after: u64, by_force: bool, how: Use) -> Task {
    Box::pin(async move {
        if by_force {
            let _ = client.redlock.force_release(Names::from(how.names.as_slice())).await;
        }
        sleep(&client, after).await;
        lock(client, how).await;
    })
}

pub(super) fn release_all(client: Client) -> Task {
    Box::pin(async move {
        if !client.hands_over() {
            drop(client.redlock.release_all().await);
        }
    })
}

/// Shuts a client down. Afterwards, no task waits in it or holds a lease of it.
pub(super) fn shutdown(client: Client, ms: u64) -> Task {
    Box::pin(async move {
        if client.hands_over() {
            return;
        }
        let _ = client.redlock.shutdown(Duration::from_millis(ms)).await;
        sleep(&client, 1).await;
        let now = client.clock.world.lock().unwrap().now;
        client.monitor.lock().unwrap().shut_down(client.id, now);
    })
}

/// How long the nodes may take to connect, in ms: `connect_timeout`, and a tenth.
const CONNECTS: u64 = 5_500;

async fn acquire(client: &Client, lock: &crate::Lock, how: &Use) -> Option<Lease> {
    let node_timeout = how.node_timeout();
    let now = client.clock.world.lock().unwrap().now;
    // A `wait` of 0 is one round, in which fencing may send a second request. It connects first.
    // One of a semaphore may miss a few times.
    let rounds = if how.is_of_semaphore() { 4 } else { 1 + u64::from(client.fencing) };
    let round = rounds * node_timeout;
    let is_connected =
        client.nodes.iter().filter_map(Weak::upgrade).all(|node| node.is_connected(how.names[0]));
    let round = if is_connected { round } else { round + CONNECTS };
    let allowed = how.wait.map(|wait| if wait == 0 { round } else { wait });
    let allowed = allowed.map(|wait| now + wait * MS * 101 / 100);
    let waiting = client.monitor.lock().unwrap().begins(client.id, how, (now, allowed));
    let acquire = lock.acquire();
    let outcome = match how.cancel {
        None => Some(acquire.await),
        Some(cancel) => {
            tokio::select! {
                biased;
                outcome = acquire => Some(outcome),
                () = sleep(client, cancel) => None,
            }
        }
    };
    client.monitor.lock().unwrap().ends(waiting);
    let error = match outcome? {
        Ok(lease) => return Some(lease),
        Err(error) => error,
    };
    let (end, refused) = {
        let world = client.clock.world.lock().unwrap();
        (world.now, world.logins_refused)
    };
    let least = how.wait.map_or(END, |wait| wait * MS * 99 / 100);
    let tried = matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable);
    if tried && end < now + least && !refused {
        client.monitor.lock().unwrap().gave_up(client.id);
    }
    None
}

async fn sleep(client: &Client, ms: u64) {
    client.clock.sleep_until(client.clock.now() + Duration::from_millis(ms)).await;
}

/// Records when the holder is notified of a loss.
fn watch(client: &Client, hold: &LeaseHandle) {
    let (lost, hold, monitor) = (hold.lost(), hold.clone(), Arc::clone(&client.monitor));
    let world = Arc::clone(&client.clock.world);
    let task = async move {
        let reason = lost.await.loss_reason();
        let world = world.lock().unwrap();
        monitor.lock().unwrap().notified(&hold, reason, &world);
    };
    client.spawned.lock().unwrap().push(Spawned::Task(client.id, Box::pin(task)));
}
