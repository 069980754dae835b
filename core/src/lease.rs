//! What an acquire gives: a token, a validity, and the word when it is lost.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::{Unit, check_ttl};
use crate::state::{Owner, State, Status};
use crate::text::shown;

/// A handle on a lease; clones are handles on the same one. Dropping it releases nothing.
#[derive(Clone)]
pub struct Hold(pub(crate) Arc<State>);

impl Hold {
    /// Whether the lease is ours for sure at this moment: a comparison with the clock, no I/O.
    pub fn held(&self) -> bool {
        self.0.held()
    }

    /// What is left of the lease for sure; zero once it is over.
    pub fn remaining(&self) -> Duration {
        self.0.deadline().map_or(Duration::ZERO, |deadline| deadline.since(self.0.now()))
    }

    /// `Ok` while the lease is held, else the error that says why it is not.
    pub fn ensure_held(&self) -> Result<()> {
        if self.held() { Ok(()) } else { Err(self.0.over()) }
    }

    /// The Redis key; of several, all, separated by commas.
    pub fn key(&self) -> String {
        self.0.key()
    }

    /// The Redis keys.
    pub fn keys(&self) -> &[String] {
        &self.0.terms.claim.keys
    }

    /// The owner's token: the value of the key.
    pub fn token(&self) -> &str {
        &self.0.terms.claim.token
    }

    /// Which lease it is, among those that this process holds now: handles on one lease answer the same.
    #[doc(hidden)]
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// How long each renewal makes the lease last.
    pub fn ttl(&self) -> Duration {
        self.0.phase().map_or(Duration::ZERO, |phase| phase.ttl)
    }

    /// The fencing token: larger than that of every earlier lease of the same lock, so that a resource that
    /// remembers the largest one it has seen can refuse a holder whose time is over.
    ///
    /// Fails with `Invalid` where none was asked for. See Kleppmann, "How to do distributed locking" (2016).
    pub fn fencing_token(&self) -> Result<u64> {
        self.0.terms.fence.ok_or_else(|| {
            let text = "this lease has no fencing token: make the lock with fencing on; \
                        an attached lease has none, hand it over with the token";
            Error::invalid(format!("{}: {text}", shown(&self.key()))).about(&self.key())
        })
    }

    /// Notes where it was acquired, as its language writes it: messages show it. The first note stands.
    pub fn place(&self, place: impl fmt::Display + Send + Sync + 'static) {
        // Whoever was first has noted the same.
        let _ = self.0.place.set(Box::new(place));
    }

    /// Notes who acquired it: an acquire of the same owner that waits for this lease says so. The first note stands.
    pub fn owned_by(&self, owner: Owner) {
        let _ = self.0.owner.set(owner);
    }

    /// `, acquired at PLACE`, if that was noted: for messages.
    pub fn acquired_at(&self) -> String {
        self.0.acquired_at()
    }

    /// Whether it was released by us.
    pub fn released(&self) -> bool {
        self.0.phase().is_some_and(|phase| phase.status == Status::Released)
    }

    /// Why the lease was lost, if it was.
    pub fn loss(&self) -> Option<Error> {
        self.0.loss()
    }

    /// Ends when the lease is lost, with the reason; never, if it is released first.
    pub fn lost(&self) -> impl Future<Output = Error> + Send + 'static {
        let state = Arc::clone(&self.0);
        async move {
            loop {
                let mut bell = std::pin::pin!(state.bell.notified());
                bell.as_mut().enable();
                if let Some(error) = state.loss() {
                    return error;
                }
                bell.await;
            }
        }
    }

    /// Ends when the lease does, in whatever way: with the reason if it was lost, with `None` once it was released
    /// or abandoned.
    pub fn ended(&self) -> impl Future<Output = Option<Error>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        async move {
            loop {
                let mut bell = std::pin::pin!(state.bell.notified());
                bell.as_mut().enable();
                if !state.held() {
                    return state.loss();
                }
                bell.await;
            }
        }
    }

    /// Makes the lease last at least `ttl` from now, which is also the ttl of later renewals once it is confirmed. Sent at
    /// the call.
    ///
    /// It never shortens the lease. Fails with `Lost` once the lease is over, and with `Unavailable` if too few
    /// nodes answered; then the lease goes on to its deadline.
    pub fn extend(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        let sent = check_ttl(ttl, state.terms.guard, state.terms.unit);
        let sent = sent.map(|()| state.send_extend(ttl));
        async move { state.extend(ttl, sent?).await }
    }

    /// [`Hold::extend`] for other languages: `None` is the lease's own ttl.
    pub fn extend_args(
        &self,
        ttl: Option<f64>,
        unit: Unit,
    ) -> Result<impl Future<Output = Result<()>> + Send + 'static + use<>> {
        let ttl = ttl.map(|ttl| unit.duration("ttl", ttl)).transpose()?;
        let ttl = ttl.unwrap_or_else(|| self.ttl());
        check_ttl(ttl, self.0.terms.guard, unit)?;
        Ok(self.extend(ttl))
    }

    /// Gives the lease back, where it is still ours. Sent at the call; the future is the confirmation.
    ///
    /// A second release does nothing. After a loss it fails with `Lost`; if too few nodes confirmed, with
    /// `Unavailable`: the keys then expire by themselves.
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        let state = Arc::clone(&self.0);
        let sent = state.send_release();
        state.released(sent)
    }

    /// Ends the lease here and deletes nothing: the keys live out their ttl, or go on under who attached to their token.
    /// True if the lease was still held.
    pub fn abandon(&self) -> bool {
        let Some(mut phase) = self.0.held_phase() else {
            return false;
        };
        phase.status = Status::Abandoned;
        drop(phase);
        self.0.keeper.forget(&self.0);
        self.0.ring();
        true
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

/// What you hold: dropping it releases it, best-effort and without waiting.
#[must_use = "a lease that is dropped is released"]
#[derive(Debug)]
pub struct Lease {
    hold: Hold,
    releases: bool,
}

impl Lease {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { hold: Hold(state), releases: true }
    }

    /// Gives the lease back and waits for a quorum to confirm it; see [`Hold::release`].
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static + use<> {
        self.into_hold().release()
    }

    /// The lease without its release on drop.
    pub fn into_hold(mut self) -> Hold {
        self.releases = false;
        self.hold.clone()
    }
}

impl Deref for Lease {
    type Target = Hold;
    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.releases {
            drop(self.hold.release());
        }
    }
}
