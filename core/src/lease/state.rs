//! The state of one lease: held, extended, healed, then released or lost permanently. [`super::end`] reports the end,
//! and sends the deletes.
//!
//! A lease is lost by [`LeaseState::lose`] (denied by the nodes, or the client was closed), by `revoke` in
//! [`super::end`], or by the first look at it after its deadline ([`LeaseState::status_now`]). The monitor looks at
//! each deadline, and the clock advances while the machine is suspended. In a forked child, the parent's lease counts
//! as lost ([`LeaseState::loss`]).
//!
//! Reading a lease locks nothing ([`Term`]). Its changes lock [`Commands`], and the background thread waits for them.
//! Never await, allocate, free, log or run a callback under that lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::sync::Notify;

use super::leases::Leases;
use super::renewal::Checks;
use super::status::Status;
use super::term::Term;
use crate::clock::{Instant, NEVER, nanos};
use crate::error::{Error, LossReason};
use crate::node::{Claim, Reply, Vote};
use crate::options::lock::Request;
use crate::quorum::{Nodes, Validity};
use crate::runtime::{Made, lock};
use crate::telemetry::{CallSite, Owner, Spans};

/// The state of one lease, shared by its handles and the monitor.
pub(crate) struct LeaseState {
    /// Unique among the client's leases.
    pub(crate) id: u64,
    /// The keys and options of the lock. An extend waits at most a part of the current TTL for one node's
    /// reply.
    pub(crate) request: Arc<Request>,
    /// The keys with the token of this lease.
    pub(crate) claim: Claim,
    /// When the round that granted the lease began, or the one that attached it.
    ///
    /// `max_hold`, `min_hold`, the first renewal and the warning about a long hold are measured from here.
    pub(crate) acquired: Instant,
    pub(crate) fence: Option<u64>,
    /// Whether the lease was attached. Another lease with its token may then live on when this one ends.
    pub(super) attached: bool,
    pub(crate) own: Made<Own>,
    /// Where the lease was acquired, in the notation of its language. Only messages show it.
    pub(crate) call_site: OnceLock<Arc<dyn CallSite>>,
    pub(crate) owner: OnceLock<Owner>,
    term: Term,
    /// The TTL that renewals request, in nanoseconds.
    ttl: AtomicU64,
    /// The deadline that the monitor looks at next, in nanoseconds. Only the monitor uses it.
    planned: AtomicU64,
    /// Whether it was logged that the lease is held for long.
    pub(super) warned: AtomicBool,
    /// Locked while missing keys are restored.
    pub(super) healing: Mutex<()>,
    pub(super) checks: Checks,
    pub(crate) ended: Notify,
}

/// What only the process of the lease uses. A forked child drops nothing that could lock a mutex of the parent, or wake
/// its threads.
pub(crate) struct Own {
    /// What the lease shares with the others of its client.
    pub(crate) leases: Arc<Leases>,
    pub(super) spans: OnceLock<Spans>,
    commands: Mutex<Commands>,
}

/// Where a lease comes from.
pub(crate) struct Origin {
    /// The keys with their token.
    pub(crate) claim: Claim,
    pub(crate) fence: Option<u64>,
    /// Whether the lease was attached.
    pub(crate) attached: bool,
}

impl LeaseState {
    /// A lease that a quorum granted, with its `votes` that may still be under way or unsent. The monitor watches it
    /// from now on, and its end drops the votes before it sends their deletes.
    pub(crate) fn new(
        request: &Arc<Request>,
        origin: Origin,
        granted: Validity,
        votes: Vec<Reply<Vote>>,
        leases: &Arc<Leases>,
        nodes: &Arc<Nodes>,
    ) -> Arc<Self> {
        let Origin { claim, fence, attached } = origin;
        let (ends, ttl) = (granted.ends(), granted.wanted);
        let renews = request.options.renew && !granted.is_capped();
        // The earlier event wakes the monitor. After a slow round the deadline may come before the renewal.
        let first = if renews { granted.started + ttl / 3 } else { NEVER };
        let first = first.min(ends);
        // `longest` exceeds the request if `max_hold` limited it. Keeping a pending delete for too long is harmless.
        let longest = ttl.max(granted.key_ttl(&request.options, granted.started));
        let nodes = Some(Arc::clone(nodes));
        let commands = Mutex::new(Commands { deleted: false, longest, votes, nodes });
        let own = Own { leases: Arc::clone(leases), spans: OnceLock::new(), commands };
        let state = Arc::new(Self {
            id: leases.registry.new_id(),
            request: Arc::clone(request),
            claim,
            acquired: granted.started,
            fence,
            attached,
            own: Made::new(own),
            call_site: OnceLock::new(),
            owner: OnceLock::new(),
            term: Term::new((ends.nanos(), granted.is_capped())),
            ttl: AtomicU64::new(nanos(ttl)),
            planned: AtomicU64::default(),
            warned: AtomicBool::default(),
            healing: Mutex::default(),
            checks: Checks::default(),
            ended: Notify::new(),
        });
        leases.registry.add(state.id, &state.claim.keys, &state, first);
        state
    }

    pub(crate) fn now(&self) -> Instant {
        self.own.leases.clock.now()
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.claim.keys
    }

    pub(crate) fn key(&self) -> String {
        self.request.key()
    }

    /// Whether the lease belongs to the parent of this forked process. Its locks may be stuck, because a thread of the
    /// parent held one.
    pub(super) fn forked(&self) -> bool {
        !self.own.is_ours()
    }

    /// Runs a call of the lease. If the lease belongs to the parent of this forked process, the call is neither polled
    /// nor dropped, and its result is that of `forked`.
    pub(super) fn in_own_process<F: Future>(
        self: &Arc<Self>,
        call: F,
        forked: fn(&Self) -> F::Output,
    ) -> impl Future<Output = F::Output> + use<F> {
        let state = Arc::clone(self);
        self.own.in_same_process(call).map(move |done| done.unwrap_or_else(|| forked(&state)))
    }

    /// The status. A lease that has expired is marked as lost by the first caller. `None` in a forked child.
    pub(crate) fn status(&self) -> Option<Status> {
        self.status_now().map(|(status, _)| status)
    }

    /// The status, and the time at which it was read.
    pub(super) fn status_now(&self) -> Option<(Status, Instant)> {
        if self.forked() {
            return None;
        }
        let mut term = self.term.deadline();
        loop {
            let (deadline, capped) = term;
            let deadline = Instant::from_nanos(deadline);
            // Read after the deadline, because time passes while this thread is suspended.
            let now = self.now();
            let status = self.known();
            if status != Status::Held || now < deadline {
                return Some((status, now));
            }
            // The lease may have been extended while this thread was suspended.
            let known = std::mem::replace(&mut term, self.term.deadline());
            if known == term {
                let reason = if capped { LossReason::MaxHold } else { LossReason::Expired };
                let end = Status::Lost(reason, deadline);
                if self.finish(end, now) {
                    self.report(end);
                }
                return Some((self.known(), now));
            }
        }
    }

    /// The status without a look at the time.
    pub(super) fn known(&self) -> Status {
        Status::of_number(self.term.ended())
    }

    /// Ends the lease, unless it has ended. Returns whether this call ended it. Directly afterwards it is counted, so
    /// that a caller that sees the end also sees it in the statistics.
    ///
    /// It does not read the clock: a custom clock that panics must not come between the end and its notification.
    pub(super) fn finish(&self, end: Status, now: Instant) -> bool {
        let ended = self.term.finish(end.number());
        if ended {
            let held = now.since(self.acquired);
            match end {
                Status::Released => self.own.leases.counts.released(held),
                Status::Lost(reason, _) => self.own.leases.counts.lost(reason, held),
                Status::Held | Status::Detached => {}
            }
        }
        ended
    }

    /// Locks what the commands for the lease need. No reader of the lease waits for it or makes others wait.
    pub(super) fn commands(&self) -> MutexGuard<'_, Commands> {
        lock(&self.own.commands)
    }

    /// Locks it if the lease is held. A release waits until it is unlocked.
    pub(super) fn held_commands(&self) -> Option<MutexGuard<'_, Commands>> {
        // First, because an expired lease is reported, which may run code of the program.
        self.deadline()?;
        let commands = self.commands();
        let held = self.known() == Status::Held && self.now() < self.last_deadline();
        held.then_some(commands)
    }

    /// Drops the votes that may still be under way. One of them may be sent later, or again after the script is
    /// reloaded. The delete, perhaps of a lease that shares the token, must be the last command.
    pub(super) fn drop_votes(&self) {
        let votes = std::mem::take(&mut self.commands().votes);
        drop(votes);
    }

    /// The status and the deadline. Changes nothing, unlike the other methods.
    #[cfg(test)]
    pub(crate) fn peek(&self) -> (Status, Instant) {
        (self.known(), self.last_deadline())
    }

    pub(crate) fn is_held(&self) -> bool {
        self.deadline().is_some()
    }

    /// The TTL that renewals request. Zero in a forked child.
    pub(crate) fn ttl(&self) -> Duration {
        if self.forked() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    /// Sets the TTL that later renewals request.
    pub(super) fn set_ttl(&self, ttl: Duration) {
        self.ttl.store(nanos(ttl), Ordering::Release);
    }

    /// When the lease ends unless it is extended. `None` if it has ended.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.status()? == Status::Held).then(|| self.last_deadline())
    }

    /// The deadline, also after the end.
    pub(super) fn last_deadline(&self) -> Instant {
        Instant::from_nanos(self.term.deadline().0)
    }

    /// The TTL that a renewal requests. `None` if there is nothing to renew.
    pub(crate) fn renewal(&self) -> Option<Duration> {
        self.deadline()?;
        let capped = self.term.deadline().1;
        (self.request.options.renew && !capped).then(|| self.ttl())
    }

    /// Applies a confirmed extend. The deadline only moves forward.
    pub(crate) fn confirm(&self, granted: Validity) {
        if self.is_held() {
            self.term.extend((granted.ends().nanos(), granted.is_capped()));
        }
    }

    /// Marks the lease as lost permanently. The first reason stays, and no later reply revives the lease.
    pub(crate) fn lose(&self, reason: LossReason) {
        if !self.is_held() {
            return;
        }
        let now = self.now();
        let end = Status::Lost(reason, now);
        if self.finish(end, now) {
            self.drop_votes();
            self.report(end);
        }
    }

    /// Sets the deadline that the monitor looks at next. Returns the previous one.
    pub(super) fn plan_deadline(&self, deadline: Instant) -> Instant {
        let before = self.planned.swap(deadline.nanos(), Ordering::Relaxed);
        Instant::from_nanos(before)
    }

    /// Called by the monitor at the deadline. Notifies the holder even if the thread that noticed the loss is suspended
    /// before it does.
    pub(super) fn settle(&self) {
        if matches!(self.known(), Status::Lost(..)) {
            self.ended.notify_waiters();
            self.drop_votes();
        }
    }

    /// The error with the loss reason, if the lease was lost.
    pub(crate) fn loss(&self) -> Option<Error> {
        let Some(status) = self.status() else {
            return Some(Error::lost(&self.key(), LossReason::Forked, Duration::ZERO));
        };
        let Status::Lost(reason, at) = status else { return None };
        Some(Error::lost(&self.key(), reason, self.now().since(at)))
    }

    /// The error that explains why the lease is not held.
    pub(crate) fn why_over(&self) -> Error {
        self.loss().unwrap_or_else(|| Error::released(&self.key()))
    }

    /// `, acquired at CALL SITE`, or an empty string if the call site is unknown.
    pub(crate) fn acquired_at(&self) -> String {
        self.call_site.get().map_or_else(String::new, |at| format!(", acquired at {at}"))
    }
}

impl Drop for LeaseState {
    fn drop(&mut self) {
        let commands = self.own.commands.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_deleted = commands.deleted;
        // Otherwise its end has removed it.
        if !is_deleted && !self.forked() && self.known() != Status::Detached {
            self.own.leases.registry.remove_dropped(self.id, &self.claim.keys);
        }
    }
}

/// What the commands for a lease need.
pub(crate) struct Commands {
    /// Whether the deletes were sent. A later release or drop sends none.
    pub(super) deleted: bool,
    /// The longest time that the keys may live according to all requests, confirmed or not. A delete that cannot be
    /// sent is kept pending for that long.
    pub(super) longest: Duration,
    /// First votes that the quorum did not need. They are kept so that nodes which are still connecting receive theirs.
    /// The first extend replaces them.
    pub(super) votes: Vec<Reply<Vote>>,
    /// `None` once no command can follow, because the deletes were sent or the lease was detached. Connections stay
    /// open while an object has their nodes.
    pub(super) nodes: Option<Arc<Nodes>>,
}
