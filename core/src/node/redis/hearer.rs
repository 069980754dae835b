//! Handles the pushes of a server, and passes changed keys to waiters and holders.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{PushKind, Value};

use super::flood::Flood;
use crate::clock::Clock;
use crate::node::{Change, Fault, Watch};

/// Handles the pushes of one server, whichever connection they arrive on.
pub(super) struct Hearer {
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    /// Limits the pushes. Locked only for an addition, because threads of any priority use it.
    flood: Mutex<Flood>,
}

impl Hearer {
    /// Creates a handler without pushes.
    pub(super) fn new(clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let flood = Mutex::new(Flood::new(clock.now()));
        Self { clock, watch, flood }
    }

    /// Counts the reads of a command, whose keys may be pushed later.
    pub(super) fn asked(&self, command: &[u8]) {
        self.flood.lock().unwrap_or_else(PoisonError::into_inner).asked(command);
    }

    /// Counts a push of this number of keys, or of all keys.
    fn told(&self, keys: Option<usize>) -> Option<Fault> {
        let now = self.clock.now();
        self.flood.lock().unwrap_or_else(PoisonError::into_inner).told(keys, now)
    }

    /// Handles a push. Returns an error if the server floods the client.
    pub(super) fn pushed(&self, kind: &PushKind, data: &[Value]) -> Option<Fault> {
        // Other pushes were not requested and are ignored.
        if *kind != PushKind::Invalidate {
            return None;
        }
        // A flush is reported as null, which means every key.
        let Some(Value::Array(keys)) = data.first() else {
            let flood = self.told(None);
            if flood.is_none() {
                self.watch.changed(Change::Flush);
            }
            return flood;
        };
        if let Some(flood) = self.told(Some(keys.len())) {
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
}
