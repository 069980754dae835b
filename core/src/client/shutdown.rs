//! Shuts a client down in order: rejects new commands, waits for earlier ones, then releases the remaining leases.
//!
//! [`Redlock::close`] ends a client without waiting and without deletes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};

use super::Redlock;
use crate::clock::{Clock, Instant};
use crate::drivers;
use crate::engine::running::Running;
use crate::engine::{Engine, Phase};
use crate::error::{Error, ErrorKind, NodeReport, NodeState, Result};
use crate::lease::{Deletes, LeaseState, confirmed, revoke};
use crate::node::Node;
use crate::quorum::{Nodes, Tally};
use crate::runtime::Made;
use crate::runtime::background::spawn;

/// The interval at which waiting acquires and held leases are counted. Leases end in many ways, so polling is simpler
/// and cheaper than a signal for each.
const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The minimum time for the confirmation of deletes, if the wait for acquires took all of it.
const MIN_CONFIRM_TIME: Duration = Duration::from_millis(50);

/// Leases that the shutdown released, with the replies to their deletes.
type Sent = Vec<(Arc<LeaseState>, Deletes)>;

impl Redlock {
    /// Releases every lease that this client holds. Returns their number.
    ///
    /// The commands are sent when this method is called. Code that still runs under a lease is notified of a loss with
    /// reason `revoked`.
    ///
    /// # Errors
    ///
    /// The first error, after all leases were tried.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// assert_eq!(client.release_all().await?, 1);
    /// assert_eq!(lease.lost().await.reason(), Some("revoked"));
    /// # Ok(()) }
    /// ```
    pub fn release_all(&self) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        let sent = self.0.running().map(|running| revoke_all(&running));
        drivers::flush();
        let confirmed = Made::new(all_confirmed(sent.unwrap_or_default()));
        // A forked child that continues the call has no leases.
        confirmed.map(|count| count.unwrap_or(Ok(0)))
    }

    /// Ends the client in order. Returns how many leases were still held at the timeout, or 0 if the client is already
    /// closed.
    ///
    /// From the call on, new acquires fail with `Closed`. Acquires that wait already have up to `timeout` to get their
    /// lease, and held leases to be released. At the timeout, acquires that still wait fail with `Closed`. Leases that
    /// are still held are released, and their holders are notified of a loss with reason `revoked`. With a `timeout` of
    /// zero, acquires end at the call, and leases when the future is first polled.
    ///
    /// Ends when the nodes have confirmed every delete, or `node_timeout` after the deletes were sent. A node that
    /// cannot be reached and has pending deletes gets until `timeout` to return. If a server does not reply, the call
    /// thus takes up to `timeout` plus `node_timeout`.
    ///
    /// If the future is dropped, the shutdown continues in the background.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no quorum confirmed a delete, or if an acquire under way could not end because its executor is
    /// blocked. Those keys expire when their TTL ends. The client is closed nevertheless.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> redlock::Result<()> {
    /// # let client = redlock::Redlock::builder(["memory://"]).build()?;
    /// let lease = client.lock("job").acquire().await?;
    /// lease.release().await?;
    /// assert_eq!(client.shutdown(std::time::Duration::from_secs(10)).await?, 0);
    /// # Ok(()) }
    /// ```
    pub fn shutdown(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<usize>> + Send + 'static + use<> {
        // Done when called, even if the future is never polled or dropped early. With a timeout of zero, waiting
        // acquires end now.
        self.0.enter(if timeout.is_zero() { Phase::Closed } else { Phase::Draining });
        let (engine, forked) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let ended = async move {
            let Some(running) = engine.running() else {
                engine.close();
                return Ok(0);
            };
            let count = tokio::select! {
                biased;
                count = in_order(&engine, &running, timeout) => count,
                // Its timers and replies come from the components, and would never arrive.
                () = running.failed() => {
                    let nodes = &running.acquirer.nodes;
                    let left: Vec<_> = nodes.list.iter().filter(|node| node.may_leave_keys()).collect();
                    confirmed_without(nodes, &left).map(|()| 0)
                }
            };
            engine.close();
            count
        };
        Continued::new(ended).map(move |count| {
            count.unwrap_or_else(|| {
                // A forked child that continues the call has no leases. The client ends there too.
                forked.close();
                Ok(0)
            })
        })
    }
}

/// Ends the calls and leases of a client within `timeout`. Returns how many leases were still held then.
async fn in_order(engine: &Engine, running: &Running, timeout: Duration) -> Result<usize> {
    let clock = &*running.acquirer.nodes.clock;
    let end = clock.now() + timeout;
    // The order matters: a granted acquire becomes a lease before it stops waiting.
    let waiting = || running.acquirer.callers() > 0;
    let held = || running.leases().registry.leases().iter().any(|state| state.is_held());
    ends(|| waiting() || held(), clock, end).await;
    // Done before the leases are released, so that no acquire that waits for one of them gets it.
    engine.enter(Phase::Closed);
    let (sent, timeout) = (revoke_all(running), engine.config.node_timeout());
    // All waits share one timeout, because a server that replies to no delete replies to nothing else.
    let by = end.max(clock.now() + timeout);
    // An acquire that ends deletes the votes of its last round.
    ends(waiting, clock, by).await;
    // A busy event loop may have delayed this call beyond its end, or the acquires.
    let by = by.max(clock.now() + MIN_CONFIRM_TIME);
    let count = all_confirmed(sent).await;
    let arrived = deletes_arrive(&running.acquirer.nodes, timeout, end, by).await;
    count.and_then(|count| arrived.map(|()| count))
}

/// A future that continues on the background thread if it is dropped before its end. Otherwise a caller that gives up
/// would leave a client that rejects acquires and keeps its leases.
struct Continued<T: Send + 'static>(Option<Pin<Box<Made<BoxFuture<'static, T>>>>>);

impl<T: Send + 'static> Continued<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(Made::new(future.boxed()))))
    }
}

impl<T: Send + 'static> Future for Continued<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let done = ready!(future.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Continued<T> {
    fn drop(&mut self) {
        // A forked child does not continue the calls of its parent.
        if let Some(future) = self.0.take_if(|future| future.is_ours()) {
            spawn(future.map(drop)).detach();
        }
    }
}

/// Sends all deletes before any confirmation is awaited, so that they travel together.
fn revoke_all(running: &Running) -> Sent {
    let leases = running.leases().registry.leases().into_iter();
    leases.filter_map(|state| revoke(&state).map(|deletes| (state, deletes))).collect()
}

/// Waits for all confirmations. After an error, the other releases are still awaited.
async fn all_confirmed(sent: Sent) -> Result<usize> {
    let results =
        sent.into_iter().map(|(state, deletes)| confirmed(state, Ok(Some(deletes)), false));
    let results = join_all(results).await;
    let count = results.len();
    results.into_iter().collect::<Result<()>>().map(|()| count)
}

async fn ends(busy: impl Fn() -> bool, clock: &dyn Clock, until: Instant) {
    while clock.now() < until && busy() {
        clock.sleep_until(until.min(clock.now() + SHUTDOWN_CHECK_INTERVAL)).await;
    }
}

/// Waits for the deletes, including those of leases that were released without waiting. A node replies in order, so its
/// last reply covers all earlier commands. Fails if deletes are still pending on too many nodes for a quorum, or if an
/// acquire has not sent its deletes, because the event loop or thread that runs it is blocked.
///
/// A node that cannot be reached may become available again before `end`. A node that replies gets until `by`: its
/// deletes were sent after the request, as by an acquire that has just ended.
async fn deletes_arrive(
    nodes: &Nodes,
    node_timeout: Duration,
    end: Instant,
    by: Instant,
) -> Result<()> {
    let clock = &*nodes.clock;
    let mut asked: Vec<_> = nodes.list.iter().collect();
    loop {
        // Counted before the request, which follows the deletes of the rounds that have ended.
        let has_rounds = nodes.has_rounds();
        let last = asked.iter().map(|node| node.drained().map(|reply| reply.is_ok()));
        let last = join_all(last);
        drivers::flush();
        let replied = tokio::select! {
            biased;
            replied = last => replied,
            () = clock.sleep_until(by.min(clock.now() + node_timeout)) => vec![false; asked.len()],
        };
        let left = asked.into_iter().zip(replied).filter(|(node, _)| node.may_leave_keys());
        let (left, replied): (Vec<_>, Vec<_>) = left.unzip();
        let until = if has_rounds || replied.contains(&true) { by } else { end };
        let confirmed = confirmed_without(nodes, &left).and_then(|()| all_ended(has_rounds));
        // After the timeout, only a quorum is waited for.
        let ended = if confirmed.is_ok() {
            left.is_empty() || clock.now() >= end
        } else {
            clock.now() >= until
        };
        if ended {
            return confirmed;
        }
        // The next request goes to the nodes with pending deletes, which they send before it. A round under way may
        // send some to any node.
        asked = if has_rounds { nodes.list.iter().collect() } else { left };
        clock.sleep_until(until.min(clock.now() + SHUTDOWN_CHECK_INTERVAL)).await;
    }
}

/// Fails if the deletes of these nodes are still pending and the others are not a quorum.
fn confirmed_without(nodes: &Nodes, unconfirmed_nodes: &[&Arc<dyn Node>]) -> Result<()> {
    let all = nodes.list.len();
    if all - unconfirmed_nodes.len() >= Tally::new(all).quorum() {
        return Ok(());
    }
    let report = |node: &Arc<dyn Node>| {
        let unconfirmed = unconfirmed_nodes.iter().any(|other| Arc::ptr_eq(other, node));
        let error =
            unconfirmed.then(|| "it did not confirm the deletes of released keys".to_owned());
        let state = if unconfirmed { NodeState::Fault } else { NodeState::Granted };
        NodeReport { url: node.url().to_owned(), state, error, cause: None }
    };
    let text = "shutdown: releases are not confirmed. Their keys expire when their TTL ends";
    Err(Error::no_quorum(text.to_owned(), nodes.list.iter().map(report).collect()))
}

/// Fails if vote rounds are under way. Only their callers can end them.
fn all_ended(has_rounds: bool) -> Result<()> {
    let text = "shutdown: acquires have not ended, because the event loops or threads that run them are blocked. Their \
                keys are deleted when those continue, or expire when their TTL ends. Do not block an event loop, and \
                await the shutdown in it";
    if has_rounds { Err(Error::new(ErrorKind::Unavailable, text)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::clock::paused::Paused;
    use crate::node::{Claim, Extension, Fault, Holder, ReleaseMode, Reply, Vote, VoteParams};

    const SECOND: Duration = Duration::from_secs(1);

    /// A node with pending deletes, which replies as in this script. `None` is a missing reply. The deletes are
    /// confirmed after the last one.
    struct Pending(Mutex<Vec<Option<bool>>>);

    impl Node for Pending {
        fn url(&self) -> &'static str {
            "node://0"
        }

        fn pushes(&self, _key: &str) -> bool {
            false
        }

        fn acquire(&self, _claim: &Claim, _params: VoteParams) -> Reply<Vote> {
            Box::pin(std::future::pending())
        }

        fn extend(&self, _claim: &Claim, _params: VoteParams) -> Reply<Extension> {
            Box::pin(std::future::pending())
        }

        fn release(&self, _: &Claim, _: Duration, _: ReleaseMode, _: Duration) -> Reply<bool> {
            Box::pin(std::future::pending())
        }

        fn inspect(&self, _key: &str, _timeout: Duration) -> Reply<Option<Holder>> {
            Box::pin(std::future::pending())
        }

        fn may_leave_keys(&self) -> bool {
            !self.0.lock().unwrap().is_empty()
        }

        fn drained(&self) -> Reply<()> {
            match self.0.lock().unwrap().pop() {
                Some(None) => Box::pin(std::future::pending()),
                Some(Some(false)) => Box::pin(std::future::ready(Err(Fault::new("refused")))),
                _ => Box::pin(std::future::ready(Ok(()))),
            }
        }
    }

    /// Returns when the shutdown of a client with these nodes ended, and whether it confirmed the deletes.
    async fn shutdown(scripts: &[&[Option<bool>]], timeout: Duration) -> (Duration, Result<()>) {
        let node = |script: &&[Option<bool>]| -> Arc<dyn Node> {
            Arc::new(Pending(Mutex::new(script.iter().rev().copied().collect())))
        };
        let list = scripts.iter().map(node).collect();
        let clock = Arc::new(Paused::new());
        let nodes = Nodes::new(list, Arc::clone(&clock) as _, SECOND);
        let ended = confirm(&nodes, timeout).await;
        (clock.elapsed(), ended)
    }

    async fn confirm(nodes: &Nodes, timeout: Duration) -> Result<()> {
        let end = nodes.clock.now() + timeout;
        deletes_arrive(nodes, SECOND, end, end.max(nodes.clock.now() + SECOND)).await
    }

    /// Its deletes may go to a node that had none to send when it was first asked.
    #[tokio::test(start_paused = true)]
    async fn round_under_way_is_awaited() {
        let clock = Arc::new(Paused::new());
        let node = Arc::new(Pending(Mutex::default()));
        let nodes = Nodes::new(vec![Arc::clone(&node) as _], Arc::clone(&clock) as _, SECOND);
        let round = Arc::clone(&nodes.rounds);
        let error = confirm(&nodes, Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains("acquires have not ended"), "{error}");
        assert!(clock.elapsed() >= SECOND);
        let ends = async {
            clock.sleep_until(clock.now() + SECOND / 2).await;
            *node.0.lock().unwrap() = vec![Some(true); 3];
            drop(round);
        };
        let (ended, ()) = tokio::join!(confirm(&nodes, Duration::ZERO), ends);
        assert!(ended.is_ok() && !node.may_leave_keys(), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn deletes_that_follow_the_request_are_awaited() {
        let interval = SHUTDOWN_CHECK_INTERVAL;
        for (script, time) in [
            (&[Some(true)][..], Duration::ZERO),
            // An acquire that just ends sends its deletes after the first request.
            (&[Some(true); 3], 2 * interval),
        ] {
            let (elapsed, ended) = shutdown(&[script], Duration::ZERO).await;
            assert!(ended.is_ok(), "{ended:?}");
            assert!((time..=time + 3 * interval).contains(&elapsed), "{elapsed:?}");
        }
    }

    /// Such as one that refuses deletes.
    #[tokio::test(start_paused = true)]
    async fn minority_with_deletes_delays_no_shutdown_beyond_its_timeout() {
        for timeout in [Duration::ZERO, 2 * SECOND] {
            let (elapsed, ended) = shutdown(&[&[], &[Some(true); 1000], &[]], timeout).await;
            assert!(ended.is_ok(), "{ended:?}");
            assert!((timeout..=timeout + 3 * SHUTDOWN_CHECK_INTERVAL).contains(&elapsed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreachable_node_is_awaited_until_the_timeout() {
        let replies = |one| [one; 1000];
        for (reply, timeout, time) in [
            (Some(false), Duration::ZERO, Duration::ZERO),
            (Some(false), 3 * SECOND, 3 * SECOND),
            (None, Duration::ZERO, SECOND),
            (Some(true), Duration::ZERO, SECOND),
        ] {
            let (elapsed, ended) = shutdown(&[&replies(reply)], timeout).await;
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Unavailable);
            let expected = time..=time + 3 * SHUTDOWN_CHECK_INTERVAL;
            assert!(expected.contains(&elapsed), "{reply:?} {timeout:?}: {elapsed:?}");
        }
    }
}
