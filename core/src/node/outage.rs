//! Logs the outages of one node.
//!
//! All leases and acquires of the client report failed attempts to connect and missing replies here. An outage is
//! logged once and then at growing intervals, regardless of the number of failed requests. So are frequent outages.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::seconds;
use crate::runtime::lock;
use crate::telemetry::{Throttle, log};

/// The duration of an outage at its first log records.
const FIRST_RECORDS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// The interval between later records.
const LATER_RECORDS: Duration = Duration::from_secs(300);
/// If a node fails again within this time after a reply, the outage continues. Otherwise a server that accepts
/// connections and then refuses each command would start a new outage with every connection. None of them would last
/// long enough to be logged.
const SAME_OUTAGE: Duration = Duration::from_secs(1);

/// The outages of one node.
#[derive(Default)]
pub(crate) struct Outage {
    /// Whether the last attempt failed. Unlike the other fields, this one is read for each reply.
    failing: AtomicBool,
    /// The current outage, or the last one.
    last: Mutex<Option<Last>>,
    /// Limits the records of a node whose outages end and begin again.
    throttle: Throttle,
}

struct Last {
    /// When the first attempt failed.
    since: Instant,
    /// When the node replied again.
    ended: Option<Instant>,
    failures: u64,
    /// The duration of the outage at its next log record.
    due: Duration,
    /// Whether the outage was logged since the last reply.
    logged: bool,
}

impl Outage {
    /// Records a failed attempt. Logs the outage if a record is due.
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
        let Some(omitted) = self.throttle.admit(now) else { return };
        outage.logged = true;
        // The lock is released first, because a log listener may call this client.
        drop(last);
        log::event!(
            Warn, Node, { node: url, outage_ms: lasted, failures: failures },
            "unavailable for {lasted}, retrying: {fault}",
            lasted = seconds(lasted), fault = format_args!("{fault}{omitted}")
        );
    }

    /// Records a reply. Logs the end of the outage if the outage was logged.
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
        lock(&self.last)
    }
}

fn next_record(lasted: Duration) -> Duration {
    let first = FIRST_RECORDS.into_iter().find(|record| *record > lasted);
    first.unwrap_or_else(|| lasted + LATER_RECORDS)
}
