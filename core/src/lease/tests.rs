//! Tests of many leases over `memory://`: a search or a burst of renewals delays no loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};

use super::{LeaseHandle, LeaseState, Origin, Status};
use crate::client::Redlock;
use crate::clock::{Clock, Instant, Sleep};
use crate::engine::running::Running;
use crate::error::LossReason;
use crate::node::{MemoryNode, advance_memory};
use crate::options::Address;
use crate::options::lock::{Options, Request};
use crate::primitive::{Preference, Primitive};
use crate::quorum::Validity;

/// A clock on which each reading takes a microsecond, so that work takes time.
#[derive(Clone, Default)]
struct WorkClock(Arc<AtomicU64>);

impl WorkClock {
    fn pass(&self, time: Duration) -> Instant {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        let before = self.0.fetch_add(nanos, Ordering::Relaxed);
        Instant::from_start(Duration::from_nanos(before + nanos))
    }
}

impl Clock for WorkClock {
    fn now(&self) -> Instant {
        self.pass(Duration::from_micros(1))
    }

    fn wall_micros(&self) -> u64 {
        0
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let clock = self.clone();
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() < at { Poll::Pending } else { Poll::Ready(()) }
        }))
    }
}

/// A lease that a round granted just now, without a request to the node.
fn granted(running: &Running, name: &str, ttl: Duration, renew: bool) -> Arc<LeaseState> {
    let leases = running.leases();
    let (keys, fences) = (Arc::from([name.to_owned()]), Arc::default());
    let options = Options { ttl, renew, ..Options::default() };
    let request = Arc::new(Request {
        identity: keys,
        primitive: Primitive::Mutex { fences },
        options,
        guard: Duration::ZERO,
        doubt: None,
    });
    let validity = Validity::new(leases.clock.now(), ttl, None);
    let claim = request.claim(&Preference::default());
    LeaseState::new(
        &request,
        Origin { claim, fence: None, attached: false },
        validity,
        Vec::new(),
        leases,
        &running.acquirer.nodes,
    )
}

#[tokio::test]
async fn renewals_that_are_due_at_once_delay_no_loss() {
    const SECOND: Duration = Duration::from_secs(1);
    let clock = WorkClock::default();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let Ok(Address::Memory(memory)) = Address::parse("memory://") else { unreachable!() };
    let (running, mut monitor) = Running::assemble(&shared, SECOND, Arc::default(), |watch| {
        vec![Arc::new(MemoryNode::new(&memory, Arc::clone(&shared), Arc::clone(watch)))]
    });
    let name = |at: usize| format!("many-{at}");
    let many: Vec<_> =
        (0..5_000).map(|at| granted(&running, &name(at), 30 * SECOND, true)).collect();
    let lost = granted(&running, "lost", 15 * SECOND, false);
    assert!(poll!(&mut monitor).is_pending());
    // All renewals are due, and the deadline of the other lease is not.
    let ends = lost.peek().1;
    let left = ends.since(clock.now() + Duration::from_millis(2));
    clock.pass(left);
    let ended = async {
        while lost.peek().0 == Status::Held {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = &mut monitor => unreachable!(),
        () = ended => {}
    }
    let late = clock.now().since(ends);
    assert_eq!(lost.loss().and_then(|error| error.loss_reason()), Some(LossReason::Expired));
    // Without the limit it is 63 ms.
    assert!(late < Duration::from_millis(15), "{late:?}");
    // The keys do not exist, so each renewal ends its lease.
    while many.iter().any(|state| state.peek().0 == Status::Held) {
        assert!(poll!(&mut monitor).is_pending());
        tokio::task::yield_now().await;
    }
}

/// A thread of low priority may be suspended while it changes a lease.
#[test]
fn reading_a_lease_waits_for_no_other_thread() {
    let client = Redlock::builder(["memory://reading"]).build().unwrap();
    let lease = client.lock("job").renew(false).acquire_blocking().unwrap().into_handle();
    let suspended = lease.0.commands();
    let read = |lease: &LeaseHandle, client: &Redlock| {
        let (lease, client, (done, result)) = (lease.clone(), client.clone(), channel());
        std::thread::spawn(move || {
            let held = (lease.is_held(), lease.ensure_held().is_ok(), !lease.remaining().is_zero());
            let reason =
                (lease.is_released(), lease.lost_reason(), lease.ended().now_or_never().is_some());
            done.send((held, reason, client.leases().len(), client.stats().held, lease.ttl()))
        });
        result.recv_timeout(Duration::from_secs(60)).expect("no lock is taken")
    };
    let ttl = Duration::from_secs(10);
    let expected = ((true, true, true), (false, None, false), 1, 1, ttl);
    assert_eq!(read(&lease, &client), expected);
    advance_memory("reading", 2 * ttl);
    let expected = ((false, false, false), (false, Some(LossReason::Expired), true), 0, 0, ttl);
    assert_eq!(read(&lease, &client), expected);
    drop(suspended);
}
