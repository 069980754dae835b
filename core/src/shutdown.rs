//! An orderly end: nothing new, time for what runs, then everything that is left is given back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::client::Redlock;
use crate::clock::{Clock, Instant};
use crate::error::Result;
use crate::live::Live;
use crate::state::State;

/// How often running leases are counted.
const LOOK: Duration = Duration::from_millis(10);

impl Redlock {
    /// Gives back every lease this client holds; the number of them, or the first error once all were tried.
    ///
    /// Whoever still runs under one is told that it is lost, with reason `released`. Sent at the call.
    pub fn release_all(&self) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        let sent = self.running().map(|live| take_back(&live));
        async move {
            match sent {
                Some(sent) => confirmed(sent).await,
                None => Ok(0),
            }
        }
    }

    /// Ends the client in order; the number of leases that it had to take back.
    ///
    /// From the call on, acquires, also those that wait, fail with `Closed`. Running leases have up to `timeout`
    /// to be released; what is left then is given back, and whoever still runs under it is told that it is lost, with
    /// reason `released`. Ends when the nodes have confirmed every delete, or did not within `node_timeout`.
    ///
    /// Fails with `Unavailable` where no quorum confirmed a delete: those keys live out their ttl. The client is
    /// closed then all the same.
    pub fn shutdown(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        self.refuse();
        let client = self.clone();
        async move {
            let Some(live) = client.running() else {
                client.close();
                return Ok(0);
            };
            let clock = &*live.quorum.clock;
            bodies_end(&live, clock, clock.now() + timeout).await;
            let count = confirmed(take_back(&live)).await;
            deletes_arrive(&live, clock, clock.now() + client.node_timeout()).await;
            client.close();
            count
        }
    }
}

type Sent = Vec<(Arc<State>, crate::quorum::Poll<bool>)>;

fn take_back(live: &Live) -> Sent {
    let leases = live.keeper.leases().into_iter();
    leases.filter_map(|state| state.take_back().map(|poll| (state, poll))).collect()
}

async fn confirmed(sent: Sent) -> Result<usize> {
    let results = join_all(sent.into_iter().map(|(state, poll)| state.released(Ok(Some(poll)))));
    let results = results.await;
    let count = results.len();
    results.into_iter().collect::<Result<()>>().map(|()| count)
}

async fn bodies_end(live: &Live, clock: &dyn Clock, until: Instant) {
    while clock.now() < until && live.keeper.leases().iter().any(|state| state.held()) {
        clock.sleep_until(until.min(clock.now() + LOOK)).await;
    }
}

/// Also those of leases that were released without waiting: what is asked last is answered last.
async fn deletes_arrive(live: &Live, clock: &dyn Clock, until: Instant) {
    let last = join_all(live.quorum.nodes.iter().map(|node| node.settled()));
    tokio::select! {
        biased;
        _ = last => {}
        () = clock.sleep_until(until) => {}
    }
}
