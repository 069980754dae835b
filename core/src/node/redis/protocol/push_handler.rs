//! Handles the pushes of a server: passes changed keys to waiters and holders, and limits the rate.
//!
//! A server pushes a key once for each read of it, so more pushes than reads are a flood. Each push is checked against
//! waiters and leases. A server that pushes without end would occupy the only thread, which also renews the leases of
//! healthy nodes. Its connection is closed like a broken one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{PushKind, Value};

use crate::clock::Instant;
use crate::node::{Change, Fault, Watch};
use crate::runtime::lock;

/// The number of unrequested pushes that is accepted per window, such as for expired keys or reads of an earlier
/// connection.
const SPARE: u64 = 10_000;
/// Long enough for a burst, and short enough to end a flood before it delays a renewal.
const WINDOW: Duration = Duration::from_secs(1);
/// How many keys a push for all keys counts as.
const ALL_KEYS_COUNT: u64 = 100;

/// Handles the pushes of one server, whichever connection they arrive on.
pub(crate) struct PushHandler {
    pub(super) watch: Arc<Watch>,
    /// The maximum number of keys that were read in the current window.
    read: AtomicU64,
    pushes: Mutex<PushWindow>,
}

/// The pushes in the current window.
struct PushWindow {
    /// When the window began.
    begun: Instant,
    /// The number of changes that were pushed since then.
    changes: u64,
}

impl PushHandler {
    pub(crate) fn new(watch: Arc<Watch>, now: Instant) -> Self {
        let pushes = Mutex::new(PushWindow { begun: now, changes: 0 });
        Self { watch, read: AtomicU64::default(), pushes }
    }

    /// Counts the reads of a command, whose keys may be pushed later. Each argument may be a key that is read. The
    /// number of arguments comes first in the encoded command (`*3`). A prefix command reads no further key.
    pub(super) fn count_reads(&self, command: &[u8]) {
        // The encoded command is the only source of this number here.
        let digits = command.iter().skip(1).map_while(|byte| char::from(*byte).to_digit(10));
        let arguments = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit));
        self.read.fetch_add(arguments, Ordering::Relaxed);
    }

    /// Handles a push. Returns an error if the server floods the client.
    pub(crate) fn handle(&self, kind: &PushKind, data: &[Value], now: Instant) -> Option<Fault> {
        // Other pushes were not requested and are ignored.
        if *kind != PushKind::Invalidate {
            return None;
        }
        // A flush is reported as null, which means every key.
        let Some(Value::Array(keys)) = data.first() else {
            let flood = self.count_pushes(ALL_KEYS_COUNT, now);
            if flood.is_none() {
                self.watch.changed(Change::Reset);
            }
            return flood;
        };
        if let Some(flood) = self.count_pushes(keys.len() as u64, now) {
            return Some(flood);
        }
        for key in keys {
            if let Value::BulkString(key) = key {
                let key = String::from_utf8_lossy(key).into_owned();
                self.watch.changed(Change::Key(key));
            }
        }
        None
    }

    /// Counts a push of this number of keys. Returns an error if the pushes exceed the limit.
    fn count_pushes(&self, keys: u64, now: Instant) -> Option<Fault> {
        let mut pushes = lock(&self.pushes);
        if now.since(pushes.begun) > WINDOW {
            // Keys that were read at the end of the last window may be pushed in this one.
            self.read.fetch_min(SPARE, Ordering::Relaxed);
            *pushes = PushWindow { begun: now, changes: 0 };
        }
        pushes.changes += keys;
        let changes = pushes.changes;
        // Checked immediately and not at the end of the window.
        (changes > self.read.load(Ordering::Relaxed) + SPARE).then(|| {
            Fault::new(format!(
                "the server sent too many notifications ({changes} changes within a second)"
            ))
        })
    }
}
