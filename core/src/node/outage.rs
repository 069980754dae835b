//! Logs the outages of one node.
//!
//! All leases and acquires of the client report failed attempts to connect, failed votes and missing replies here. An
//! outage is logged once and then at growing intervals, regardless of the number of failed requests. So are frequent
//! outages.
//!
//! Only a vote ends an outage. A server that accepts connections may still refuse each vote, and one that cannot store
//! new keys may still extend existing ones.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};
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
/// If a node fails again within this time after its outage ended, that outage continues. Otherwise none of many short
/// outages would last long enough to be logged.
const SAME_OUTAGE: Duration = Duration::from_secs(1);
/// After this time without a failure, any vote ends the outage.
const NO_FAILURES: Duration = Duration::from_secs(10);
/// If a node fails after it was connected for this time without a vote, another outage begins.
const CONNECTED: Duration = Duration::from_secs(60);

/// What a vote shows about its node, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Proof {
    /// It replied, for example that another client holds the lock.
    Reply = 1,
    /// It extended or deleted a key.
    Write,
    /// It granted a lock.
    Grant,
}

/// The outages of one node.
#[derive(Default)]
pub(crate) struct Outage {
    /// The [`Proof`] that ends the current outage, or 0. Unlike the other fields, this one is read for each reply.
    needed: AtomicU8,
    /// The current outage, or the last one.
    last: Mutex<Option<Last>>,
    /// Limits the records of a node whose outages end and begin again.
    throttle: Throttle,
}

struct Last {
    /// When the first attempt failed.
    since: Instant,
    /// When the last attempt failed.
    failed: Instant,
    /// When the node was connected again, if nothing has failed since.
    connected: Option<Instant>,
    /// When the node voted again.
    ended: Option<Instant>,
    failures: u64,
    /// The duration of the outage at its next log record.
    due: Duration,
    /// Whether the outage was logged since it last ended.
    logged: bool,
}

impl Last {
    /// Begins an outage.
    fn at(now: Instant) -> Self {
        let [due, ..] = FIRST_RECORDS;
        let (connected, ended) = (None, None);
        Self { since: now, failed: now, connected, ended, failures: 0, due, logged: false }
    }

    /// Whether a failure at this time belongs to it.
    fn goes_on(&self, now: Instant) -> bool {
        match (self.ended, self.connected) {
            (Some(ended), _) => now.since(ended) < SAME_OUTAGE,
            (None, Some(connected)) => now.since(connected) < CONNECTED,
            (None, None) => true,
        }
    }
}

impl Outage {
    /// Records a failed attempt. Logs the outage if a record is due. The outage ends with a vote that proves at least
    /// `needed`.
    pub(crate) fn failed(&self, url: &str, now: Instant, fault: &dyn Display, needed: Proof) {
        let mut last = self.last();
        let outage = match &mut *last {
            Some(outage) if outage.goes_on(now) => outage,
            _ => {
                self.needed.store(0, Ordering::Relaxed);
                last.insert(Last::at(now))
            }
        };
        (outage.failed, outage.connected, outage.ended) = (now, None, None);
        outage.failures += 1;
        self.needed.fetch_max(needed as u8, Ordering::Release);
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

    /// Records a new connection. It does not end the outage. If a vote does, the outage lasted until the connection.
    pub(crate) fn connected(&self, now: Instant) {
        if self.is_failing()
            && let Some(outage) = &mut *self.last()
        {
            outage.connected.get_or_insert(now);
        }
    }

    /// Records a vote. Logs the end of the outage if the outage was logged.
    #[inline]
    pub(crate) fn voted(&self, url: &str, proof: Proof, now: impl FnOnce() -> Instant) {
        if self.is_failing() {
            self.end_outage(url, proof, now());
        }
    }

    #[cold]
    fn end_outage(&self, url: &str, proof: Proof, now: Instant) {
        let mut last = self.last();
        let Some(outage) = &mut *last else { return };
        let is_enough = proof as u8 >= self.needed.load(Ordering::Relaxed);
        // Other requests may fail while this kind of vote succeeds.
        if !is_enough && now.since(outage.failed) < NO_FAILURES {
            return;
        }
        self.needed.store(0, Ordering::Release);
        outage.ended = Some(now);
        let lasted = outage.connected.unwrap_or(now).since(outage.since);
        let failures = outage.failures;
        if std::mem::take(&mut outage.logged) {
            drop(last);
            log::event!(
                Info, Node, { node: url, outage_ms: lasted, failures: failures },
                "available again after {lasted}", lasted = seconds(lasted)
            );
        }
    }

    fn is_failing(&self) -> bool {
        self.needed.load(Ordering::Acquire) != 0
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        lock(&self.last)
    }
}

fn next_record(lasted: Duration) -> Duration {
    let first = FIRST_RECORDS.into_iter().find(|record| *record > lasted);
    first.unwrap_or_else(|| lasted + LATER_RECORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_start(Duration::from_millis(millis))
    }

    /// An outage and the times of its records.
    #[derive(Default)]
    struct Node(Outage);

    impl Node {
        fn fails(&self, millis: u64, needed: Proof) {
            self.0.failed("redis://node", at(millis), &"it failed", needed);
        }

        fn votes(&self, millis: u64, proof: Proof) -> bool {
            self.0.voted("redis://node", proof, || at(millis));
            !self.0.is_failing()
        }

        /// How long the outage had lasted at its last failure, and whether its end will be logged.
        fn lasts(&self) -> (Duration, bool) {
            let last = self.0.last();
            let last = last.as_ref().unwrap();
            (last.failed.since(last.since), last.logged)
        }
    }

    /// A replica accepts connections, and refuses the vote on each of them.
    #[test]
    fn connections_without_a_vote_are_one_outage() {
        let node = Node::default();
        for round in 0..50 {
            node.fails(round * 5000, Proof::Grant);
            node.0.connected(at(round * 5000 + 4000));
            assert!(node.0.is_failing());
        }
        assert_eq!(node.lasts(), (Duration::from_secs(245), true));
        assert!(node.votes(249_500, Proof::Grant));
        assert_eq!(node.lasts(), (Duration::from_secs(245), false), "its end was logged");
    }

    /// A server without memory for new keys extends and deletes existing ones, and reports their holders.
    #[test]
    fn weaker_votes_do_not_end_an_outage_while_others_fail() {
        let node = Node::default();
        for round in 0..30 {
            node.fails(round * 1000, Proof::Grant);
            assert!(!node.votes(round * 1000 + 100, Proof::Write));
            assert!(!node.votes(round * 1000 + 200, Proof::Reply));
        }
        assert_eq!(node.lasts(), (Duration::from_secs(29), true));
        assert!(!node.votes(29_000 + 9999, Proof::Reply));
        assert!(node.votes(29_000 + 10_000, Proof::Reply), "nothing failed for long");
    }

    #[test]
    fn any_vote_ends_an_outage_without_replies() {
        for proof in [Proof::Reply, Proof::Write, Proof::Grant] {
            let node = Node::default();
            node.fails(0, Proof::Reply);
            assert!(node.votes(1, proof));
        }
        let node = Node::default();
        node.fails(0, Proof::Write);
        assert!(!node.votes(1, Proof::Reply));
        assert!(node.votes(2, Proof::Write));
    }

    /// Nothing needed a vote in the meantime.
    #[test]
    fn failure_long_after_a_connection_is_another_outage() {
        let node = Node::default();
        node.fails(0, Proof::Reply);
        node.fails(5000, Proof::Reply);
        node.0.connected(at(6000));
        node.fails(3_600_000, Proof::Reply);
        assert_eq!(node.lasts(), (Duration::ZERO, false));
    }
}
