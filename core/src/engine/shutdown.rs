//! An orderly end: new commands fail, what was called before gets time, then every lease that is left is released.
//!
//! [`Engine::close`] is the short way, without the time and without the deletes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{Engine, Phase, Running};
use crate::clock::{Clock, Instant};
use crate::error::Result;
use crate::foreground;
use crate::lease::{State, confirmed, take_back};
use crate::quorum::Collect;

/// How often waiting acquires and held leases are counted.
/// Leases end in many ways; to look at them a hundred times a second costs less than a signal for each.
const LOOK: Duration = Duration::from_millis(10);

/// Leases that were taken back, each with its deletes.
type Sent = Vec<(Arc<State>, Collect<bool>)>;

impl Engine {
    /// Gives back every lease; the number of them, or the first error once all were tried. Sent at the call.
    ///
    /// Dropping the future gives up the confirmations, not the deletes.
    pub(crate) fn release_all(
        &self,
    ) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        let sent = self.running().map(|running| take_all_back(&running));
        foreground::flush();
        async move {
            match sent {
                Some(sent) => all_confirmed(sent).await,
                None => Ok(0),
            }
        }
    }

    /// Refuses new commands at the call. The future gives acquires that wait and leases that are held `timeout` to end,
    /// then ends the acquires, releases the leases and closes.
    ///
    /// If it is dropped before its end, the client goes on refusing new commands. What was called before goes on, too.
    pub(crate) fn shutdown(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        // At the call, also if the future is never polled. Without time for acquires that wait, they end now.
        self.enter(if timeout.is_zero() { Phase::Closed } else { Phase::Draining });
        let engine = Arc::clone(self);
        async move {
            let Some(running) = engine.running() else {
                engine.close();
                return Ok(0);
            };
            let clock = &*running.leases().nodes.clock;
            let end = clock.now() + timeout;
            calls_end(&running, clock, end).await;
            // Before the leases are released: an acquire that waits for one of them gets none.
            engine.enter(Phase::Closed);
            let count = all_confirmed(take_all_back(&running)).await;
            deletes_arrive(&running, clock, engine.config.node_timeout(), end).await;
            engine.close();
            count
        }
    }
}

/// All deletes are sent before the first confirmation is awaited: they travel together.
fn take_all_back(running: &Running) -> Sent {
    let leases = running.leases().registry.leases().into_iter();
    leases.filter_map(|state| take_back(&state).map(|deletes| (state, deletes))).collect()
}

/// Waits for all, also where one has failed: an error must not hide what became of the others.
async fn all_confirmed(sent: Sent) -> Result<usize> {
    let results = sent.into_iter().map(|(state, deletes)| confirmed(state, Ok(Some(deletes))));
    let results = join_all(results).await;
    let count = results.len();
    results.into_iter().collect::<Result<()>>().map(|()| count)
}

/// Ends when no acquire waits and no lease is held, or at `until`.
async fn calls_end(running: &Running, clock: &dyn Clock, until: Instant) {
    // In this order: a granted acquire is a lease before it stops waiting.
    let waiting = || running.acquirer.callers() > 0;
    let held = || running.leases().registry.leases().iter().any(|state| state.is_held());
    while clock.now() < until && (waiting() || held()) {
        clock.sleep_until(until.min(clock.now() + LOOK)).await;
    }
}

/// Also those of leases that were released without waiting: what is asked last is answered last. A node that owes a delete
/// may be back before `end`; one that owes none is waited for no longer than for an answer.
async fn deletes_arrive(
    running: &Running,
    clock: &dyn Clock,
    node_timeout: Duration,
    end: Instant,
) {
    let nodes = &running.leases().nodes.list;
    let mut asked: Vec<_> = nodes.iter().collect();
    loop {
        let last = join_all(asked.iter().map(|node| node.drained()));
        foreground::flush();
        tokio::select! {
            biased;
            _ = last => {}
            () = clock.sleep_until(clock.now() + node_timeout) => {}
        }
        // Those that owed are asked once more: what they pay goes before it.
        asked.retain(|node| node.owes());
        if asked.is_empty() || clock.now() >= end {
            return;
        }
        clock.sleep_until(end.min(clock.now() + LOOK)).await;
    }
}
