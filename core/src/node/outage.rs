//! The outages of one node, and what is logged of them.
//!
//! Failed attempts to connect and requests without a usable reply come here, from every lease and acquire of the client.
//! An outage is one record that is repeated at growing intervals, however many requests fail meanwhile.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::seconds;
use crate::log;

/// How long an outage has lasted when it is logged first, and again.
const FIRST_RECORDS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// The interval of the records after those.
const LATER_RECORDS: Duration = Duration::from_secs(300);
/// A node that fails again so soon after a reply is still in the same outage. A server that accepts connections and then
/// refuses each command would otherwise start an outage with each connection, and none would last long enough to be logged.
const SAME_OUTAGE: Duration = Duration::from_secs(1);

/// The outages of one node.
#[derive(Default)]
pub(crate) struct Outage {
    /// Whether the last attempt failed. Read at each reply, unlike the rest.
    failing: AtomicBool,
    /// The current outage, or the last one.
    last: Mutex<Option<Last>>,
}

/// One outage.
struct Last {
    /// When the first attempt failed.
    since: Instant,
    /// When the node replied.
    ended: Option<Instant>,
    failures: u64,
    /// How long the outage has lasted when it is logged next.
    due: Duration,
    /// Whether it was logged since the node replied last.
    logged: bool,
}

impl Outage {
    /// An attempt failed. Logs the outage where a record is due.
    pub(crate) fn failed(&self, url: &str, now: Instant, fault: &dyn Display) {
        let mut last = self.last();
        let goes_on = |last: &Last| last.ended.is_none_or(|ended| now.since(ended) < SAME_OUTAGE);
        let outage = match &mut *last {
            Some(outage) if goes_on(outage) => outage,
            _ => {
                let [due, ..] = FIRST_RECORDS;
                last.insert(Last { since: now, ended: None, failures: 0, due, logged: false })
            }
        };
        outage.ended = None;
        outage.failures += 1;
        self.failing.store(true, Ordering::Release);
        let (lasted, failures) = (now.since(outage.since), outage.failures);
        if lasted < outage.due {
            return;
        }
        outage.due = next_record(lasted);
        outage.logged = true;
        // A listener may call this client.
        drop(last);
        log::event!(
            Warn, Node, { node: url, outage_ms: lasted, failures: failures },
            "unavailable for {lasted}, retrying: {fault}", lasted = seconds(lasted), fault = fault
        );
    }

    /// The node replied. Logs the end of an outage that was logged.
    #[inline]
    pub(crate) fn replied(&self, url: &str, now: impl FnOnce() -> Instant) {
        if self.failing.load(Ordering::Acquire) {
            self.end(url, now());
        }
    }

    #[cold]
    fn end(&self, url: &str, now: Instant) {
        let mut last = self.last();
        self.failing.store(false, Ordering::Release);
        let Some(outage) = &mut *last else { return };
        outage.ended = Some(now);
        let (lasted, failures) = (now.since(outage.since), outage.failures);
        if std::mem::take(&mut outage.logged) {
            drop(last);
            log::event!(
                Info, Node, { node: url, outage_ms: lasted, failures: failures },
                "available again after {lasted}", lasted = seconds(lasted)
            );
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long an outage that was logged now will have lasted at its next record.
fn next_record(lasted: Duration) -> Duration {
    let first = FIRST_RECORDS.into_iter().find(|record| *record > lasted);
    first.unwrap_or_else(|| lasted + LATER_RECORDS)
}
