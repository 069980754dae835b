//! One renewal or check: an extend round, how its replies are handled, and when the next renewal is due.
//!
//! Each is a separate future that the monitor runs concurrently with the others. It may be dropped at any await: sent
//! commands take effect on the nodes, and the lease only relies on replies that it received.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{AbortHandle, AbortRegistration, Abortable};

use super::extend::{self, ExtendRound, Verdict};
use super::state::LeaseState;
use super::status::Status;
use crate::clock::Instant;
use crate::error::{LossReason, seconds};
use crate::node::Extension;
use crate::quorum::Until;
use crate::runtime::lock;
use crate::telemetry::{Level, Topic, log};

/// The minimum pause before a renewal is retried.
///
/// A twentieth of the shortest TTL is 5 ms. This limit only prevents a busy loop if a shorter TTL ever gets in.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(1);
/// The pause before a missing key is restored, which covers a delete that is on its way to all nodes.
///
/// Otherwise a holder that restores each missing key immediately could keep a lock that is being deleted everywhere,
/// and would never be notified.
const RESTORE_DELAY: Duration = Duration::from_millis(100);
/// Minimum time between two checks of one lease, no matter how many changes are reported.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum pause before a check without a result is repeated.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(5);

/// A future that the monitor runs.
pub(crate) type LeaseWork = Pin<Box<dyn Future<Output = NextEvent> + Send>>;

/// What follows a finished future.
#[derive(Default)]
pub(crate) struct NextEvent {
    /// When the next renewal is due, and of which lease.
    pub(crate) again: Option<(Instant, Arc<LeaseState>)>,
    /// The remaining work, for example waiting for slow nodes. It must not delay the next renewal.
    pub(crate) rest: Option<LeaseWork>,
}

/// Renews the lease. The next renewal follows a third of the TTL after a success, and sooner after an unknown result.
pub(crate) fn renew(state: Arc<LeaseState>) -> LeaseWork {
    Box::pin(async move {
        // The lease was released, lost or limited by `max_hold` in the meantime. Its renewals end here.
        let Some(ttl) = state.renewal() else { return NextEvent::default() };
        warn_if_long(&state);
        let round = confirmed(&state, extend::send(&state, ttl, false)).await;
        // The deletes of a release in the meantime explain a denial.
        if round.is_some() || !is_released(&state) {
            state.own.leases.counts.renewed(round.is_some());
        }
        log_renewal(&state, ttl, round.is_some());
        let started = round.as_ref().map(|round| round.validity.started);
        let rest = round.and_then(|round| restore_missing(&state, round, false));
        let now = state.now();
        // Measured from the start of the round, because the TTL on the nodes starts there. Without a confirmation it
        // retries soon, because only the deadline can end the lease.
        let again = state.renewal().map(|ttl| {
            let next =
                started.map_or(now + (ttl / 20).max(MIN_RETRY_DELAY), |started| started + ttl / 3);
            next.max(now)
        });
        NextEvent { again: again.map(|at| (at, state)), rest }
    })
}

/// Whether the program released or detached the lease.
fn is_released(state: &LeaseState) -> bool {
    let released = |status| match status {
        Status::Released | Status::Detached | Status::Lost(LossReason::Revoked, _) => true,
        Status::Held | Status::Lost(..) => false,
    };
    state.status().is_some_and(released)
}

/// Logs the result of a renewal. Losses are logged where they are detected.
fn log_renewal(state: &LeaseState, ttl: Duration, confirmed: bool) {
    if !log::wanted(Level::Debug, Topic::Lease) {
        return;
    }
    let Some(end) = state.deadline() else { return };
    let left = end.since(state.now());
    if confirmed {
        log::event!(
            Debug, Lease, in state.log_context(),
            { key: state.key(), token: state.token_prefix(), ttl_ms: ttl, remaining_ms: left }, "renewed"
        );
    } else {
        log::event!(
            Debug, Lease, in state.log_context(),
            { key: state.key(), token: state.token_prefix(), remaining_ms: left },
            "renewal failed, retrying until the lease expires"
        );
    }
}

/// Warns once about a lease that is held for many times its TTL, because it is renewed for as long as the protected
/// code runs. A limit of the hold time, or an endless wait as that of a leader, shows that this is intended.
///
/// One warning per call site, or per key if the call site is unknown: a program may hold thousands on purpose.
fn warn_if_long(state: &LeaseState) {
    if !state.is_held() || state.request.options.may_be_held_long() {
        return;
    }
    let held = state.now().since(state.acquired);
    if held > state.ttl().saturating_mul(10) && !state.warned.swap(true, Ordering::Relaxed) {
        let place = state.acquired_at();
        let of = if place.is_empty() { state.key() } else { place.clone() };
        if !state.own.leases.long.is_new(of) {
            return;
        }
        log::event!(
            Warn, Lease, in state.log_context(), { key: state.key(), held: seconds(held) }, "held for more than ten times \
                its TTL{place}",
            place = place
        );
    }
}

/// Starts a check of the lease, if it has none under way. Otherwise that one is repeated.
pub(crate) fn check_if_idle(state: Arc<LeaseState>) -> Option<LeaseWork> {
    state.checks.begin_check().then(|| check(state, None))
}

/// Checks whether the lease is still held after a change was reported.
///
/// It requests the remaining time of the lease. Keys with at least this TTL are not touched, and a shortened TTL is
/// restored. `pause` is the time since the previous check, if that one had no result.
fn check(state: Arc<LeaseState>, mut pause: Option<Duration>) -> LeaseWork {
    Box::pin(async move {
        loop {
            let begun = state.now();
            let Some(end) = state.deadline() else { return NextEvent::default() };
            let round = confirmed(&state, extend::send(&state, end.since(begun), true)).await;
            // Only the last check heals, because later notifications may have outdated the earlier ones.
            if !state.checks.end_check() {
                let rest = match round {
                    Some(round) => restore_missing(&state, round, true),
                    None => check_later(&state, pause),
                };
                return NextEvent { again: None, rest };
            }
            // Changes were reported in the meantime. One more check covers all of them.
            pause = None;
            state.own.leases.clock.sleep_until(begun + CHECK_INTERVAL).await;
        }
    })
}

/// Repeats a check without a result, because the reported change may have been a loss. Each pause is twice as long as
/// the last one, up to a limit: a loss must not stay unnoticed for long after an outage.
fn check_later(state: &Arc<LeaseState>, last: Option<Duration>) -> Option<LeaseWork> {
    state.deadline()?;
    let ttl = state.ttl();
    let pause = last.map_or(ttl / 20, |last| last * 2).clamp(CHECK_INTERVAL, MAX_CHECK_DELAY);
    let (newest, clock) = (state.checks.listen(), &state.own.leases.clock);
    let over = clock.sleep_until(clock.now() + pause);
    // A weak reference: the pause must not keep a dropped lease alive.
    let state = Arc::downgrade(state);
    Some(Box::pin(async move {
        let over = Abortable::new(over, newest).await.is_ok();
        match state.upgrade().filter(|state| over && state.checks.begin_check()) {
            Some(state) => check(state, Some(pause)).await,
            None => NextEvent::default(),
        }
    }))
}

/// Returns the extend round if a quorum confirmed it.
///
/// A denial ends the lease. Without a result the deadline stays.
async fn confirmed(state: &LeaseState, sent: Option<ExtendRound>) -> Option<ExtendRound> {
    let mut round = sent?;
    let verdict = extend::judge(state, &mut round).await;
    matches!(verdict, Verdict::Extended).then_some(round)
}

/// Waits for the replies that the confirmation did not need, and restores missing keys. After a `check`, it waits only
/// until the next check begins.
fn restore_missing(
    state: &Arc<LeaseState>,
    mut first: ExtendRound,
    check: bool,
) -> Option<LeaseWork> {
    // The common case: all replies have arrived and no key is missing.
    if first.votes.is_complete() && !first.votes.has(Extension::Missing) {
        return None;
    }
    let newest = check.then(|| state.checks.listen());
    // A weak reference: waiting for late replies must not keep a dropped lease alive.
    let state = Arc::downgrade(state);
    Some(Box::pin(async move {
        let done = NextEvent::default;
        let Some(clock) = state.upgrade().map(|state| Arc::clone(&state.own.leases.clock)) else {
            return done();
        };
        let until = first.until();
        let late = first.votes.until(Until::Complete, &*clock, until);
        match newest {
            Some(newest) => drop(Abortable::new(late, newest).await),
            None => late.await,
        }
        if !first.votes.has(Extension::Missing) {
            return done();
        }
        let Some(state) = state.upgrade() else { return done() };
        // The missing key may be the first of a lock that is being deleted on every node. Look again before restoring
        // it.
        let Some(ttl) = state.deadline().map(|_| state.ttl()) else { return done() };
        clock.sleep_until(clock.now() + RESTORE_DELAY.min(ttl / 20)).await;
        let Some(left) = state.deadline().map(|end| end.since(state.now())) else { return done() };
        // The second round renews the lease, or only checks it if the lease is not renewed.
        let second = match state.renewal() {
            Some(ttl) => extend::send(&state, ttl, false),
            None => extend::send(&state, left, true),
        };
        if let Some(mut second) = confirmed(&state, second).await {
            let until = second.until();
            second.votes.until(Until::Complete, &*clock, until).await;
            extend::heal(&state, [&first, &second]);
        }
        done()
    }))
}

const NO_CHECK: u8 = 0;
/// A check is under way, and nothing has changed since it began.
const ONE_CHECK: u8 = 1;
/// A check is under way, and something has changed since it began.
const ONE_MORE: u8 = 2;

/// Counts the checks of one lease, so that at most one runs at a time.
///
/// A node may report a change many times while a check is under way. A single further check that begins afterwards sees
/// every change that the first one may have missed.
///
/// An atomic instead of a field of the lease's phase: a notification never waits for a lease's lock.
#[derive(Default)]
pub(super) struct Checks {
    under_way: AtomicU8,
    /// Aborts the future that waits for late replies to the last check.
    listener: Mutex<Option<AbortHandle>>,
}

impl Checks {
    /// Whether the caller must start a check. If one is under way, it is repeated instead.
    pub(super) fn begin_check(&self) -> bool {
        let more = |checks| Some(if checks == NO_CHECK { ONE_CHECK } else { ONE_MORE });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) == Ok(NO_CHECK)
    }

    /// Ends a check. Returns whether it must be repeated.
    pub(super) fn end_check(&self) -> bool {
        let less = |checks| Some(if checks == ONE_MORE { ONE_CHECK } else { NO_CHECK });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(ONE_MORE)
    }

    /// Registers the future that waits for late replies to this check, and aborts the one of the previous check.
    ///
    /// A later notification may have outdated the previous check. While a node is slow, repeated checks would otherwise
    /// leave one waiting future each.
    pub(super) fn listen(&self) -> AbortRegistration {
        let (handle, registration) = AbortHandle::new_pair();
        let before = lock(&self.listener).replace(handle);
        if let Some(before) = before {
            before.abort();
        }
        registration
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use futures_util::future::Aborted;

    use super::*;

    #[test]
    fn new_check_cancels_the_previous_one() {
        let checks = Checks::default();
        let [first, second] = [(); 2].map(|()| Abortable::new(pending::<()>(), checks.listen()));
        assert_eq!(first.now_or_never(), Some(Err(Aborted)));
        assert_eq!(second.now_or_never(), None);
    }
}
