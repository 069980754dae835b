//! How many checks of a lease are to be made: one at a time, however often it is said to have changed.
//!
//! A node may push a change a thousand times while one check is under way. What the first check may have
//! missed, one more that begins after it has seen, whatever was pushed in between.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_util::future::{AbortHandle, AbortRegistration};

/// Nobody checks.
const NO_CHECK: u8 = 0;
/// A check is under way, and nothing has changed since it began.
const ONE_CHECK: u8 = 1;
/// A check is under way, and something has changed since.
const ONE_MORE: u8 = 2;

/// The checks of one lease.
///
/// An atomic rather than a part of the lease's phase: whoever pushes never waits for a lease's lock.
#[derive(Default)]
pub(super) struct Checks {
    under_way: AtomicU8,
    /// Who listens to the late answers of the last one.
    listener: Mutex<Option<AbortHandle>>,
}

impl Checks {
    /// Whether a check is to be started: one that is under way is made once more instead.
    pub(super) fn begin(&self) -> bool {
        let more = |checks| Some(if checks == NO_CHECK { ONE_CHECK } else { ONE_MORE });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) == Ok(NO_CHECK)
    }

    /// A check is over; whether it is to be made once more.
    pub(super) fn end(&self) -> bool {
        let less = |checks| Some(if checks == ONE_MORE { ONE_CHECK } else { NO_CHECK });
        self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(ONE_MORE)
    }

    /// Late answers to this check are listened to from now on, and no more to those before it, whose listeners end: an earlier
    /// one may have been outdated by what was told meanwhile.
    ///
    /// Checks that follow one another while a node is slow would leave a listener each, 50 of them in that node's second.
    pub(super) fn listen(&self) -> AbortRegistration {
        let (handle, registration) = AbortHandle::new_pair();
        let before = self.listener.lock().unwrap_or_else(PoisonError::into_inner).replace(handle);
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
    use futures_util::future::{Abortable, Aborted};

    use super::*;

    #[test]
    fn the_last_check_alone_is_listened_to() {
        let checks = Checks::default();
        let [first, second] = [(); 2].map(|()| Abortable::new(pending::<()>(), checks.listen()));
        assert_eq!(first.now_or_never(), Some(Err(Aborted)));
        assert_eq!(second.now_or_never(), None);
    }
}
