//! What wakes an event loop, from any thread, unless its thread looks just now.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

use crate::foreground::Ring;

/// Wakes the loop, from any thread.
pub(super) struct Bell {
    ring: Ring,
    state: AtomicU8,
}

/// The loop does something else.
const AWAY: u8 = 0;
/// Its thread looks.
const LOOKING: u8 = 1;
/// There is something to look at.
const RUNG: u8 = 2;

impl Bell {
    /// Silent.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new()?, state: AtomicU8::new(AWAY) })
    }

    /// What the loop is to watch.
    pub(super) fn descriptor(&self) -> i32 {
        self.ring.descriptor()
    }

    /// Has the loop look.
    pub(super) fn ring(&self) {
        if self.state.swap(RUNG, Ordering::SeqCst) == AWAY {
            self.ring.ring();
        }
    }

    /// From here on what is rung rings nobody: the loop's thread is about to look.
    pub(super) fn look(&self) {
        self.state.store(LOOKING, Ordering::SeqCst);
    }

    /// Whether it was rung since.
    pub(super) fn was_rung(&self) -> bool {
        self.state.load(Ordering::SeqCst) == RUNG
    }

    /// Whether it was not rung since: then from here on it wakes the loop.
    pub(super) fn is_silent(&self) -> bool {
        self.state.compare_exchange(LOOKING, AWAY, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The loop's thread goes on with something else. What was rung meanwhile wakes it later: others have their turn first.
    pub(super) fn go(&self) {
        if self.state.swap(AWAY, Ordering::SeqCst) == RUNG {
            self.ring();
        }
    }

    /// From here on it has to be rung anew.
    pub(super) fn hush(&self) {
        self.ring.hush();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
