//! What a server says by itself, to whoever waits for a key or holds it.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{PushKind, Value};

use super::flood::Flood;
use crate::clock::Clock;
use crate::node::{Change, Fault, Watch};

/// Passes on what one server tells, over whichever connection.
pub(super) struct Hearer {
    clock: Arc<dyn Clock>,
    watch: Arc<Watch>,
    /// Whether it tells of more than anybody asked for. Held for a sum only: threads of any priority ask.
    flood: Mutex<Flood>,
}

impl Hearer {
    /// Nothing was told yet.
    pub(super) fn new(clock: Arc<dyn Clock>, watch: Arc<Watch>) -> Self {
        let flood = Mutex::new(Flood::new(clock.now()));
        Self { clock, watch, flood }
    }

    /// A command was sent: its keys may be told of.
    pub(super) fn asked(&self, command: &[u8]) {
        self.flood.lock().unwrap_or_else(PoisonError::into_inner).asked(command);
    }

    /// So many keys have changed, or all.
    fn told(&self, keys: Option<usize>) -> Option<Fault> {
        let now = self.clock.now();
        self.flood.lock().unwrap_or_else(PoisonError::into_inner).told(keys, now)
    }

    /// What a server says by itself; a fault where it is too much.
    pub(super) fn pushed(&self, kind: &PushKind, data: &[Value]) -> Option<Fault> {
        // Nothing else was asked for; what a server tells of its own accord is no harm.
        if *kind != PushKind::Invalidate {
            return None;
        }
        // A flush is told as null: every key.
        let Some(Value::Array(keys)) = data.first() else {
            let flood = self.told(None);
            if flood.is_none() {
                self.watch.changed(Change::All);
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
