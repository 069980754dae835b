//! Counts the checks of one lease, which follow reported changes of its keys.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::future::{AbortHandle, AbortRegistration};

use crate::runtime::lock;

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
    use futures_util::future::{Abortable, Aborted};

    use super::*;

    #[test]
    fn new_check_cancels_the_previous_one() {
        let checks = Checks::default();
        let [first, second] = [(); 2].map(|()| Abortable::new(pending::<()>(), checks.listen()));
        assert_eq!(first.now_or_never(), Some(Err(Aborted)));
        assert_eq!(second.now_or_never(), None);
    }
}
