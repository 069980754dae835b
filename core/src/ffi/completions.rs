//! A queue of completions for an event loop, with one wake-up for many.
//!
//! The background thread pushes and never waits for the loop. The loop takes as many as it wants at once. One wake-up
//! for each completion would cost more than the completion: a system call, and a turn of the loop.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::runtime::lock;

/// A queue that any thread may push to, for an event loop that must be woken.
pub struct Completions<T> {
    /// In order of completion. Locked only for a push or a take, never while the loop is woken.
    items: Mutex<VecDeque<T>>,
    /// Whether a wake-up is under way that has not read the queue yet.
    waking: AtomicBool,
}

impl<T> Completions<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { items: Mutex::new(VecDeque::new()), waking: AtomicBool::new(false) }
    }

    /// Adds items. After a batch, the caller must call [`Completions::must_wake`].
    pub fn push(&self, items: impl IntoIterator<Item = T>) {
        lock(&self.items).extend(items);
    }

    /// Whether the caller must wake the loop: the queue has items, and no wake-up is under way.
    ///
    /// Returns true for only one of several concurrent callers, until the loop takes items.
    pub fn must_wake(&self) -> bool {
        !lock(&self.items).is_empty() && !self.waking.swap(true, Ordering::SeqCst)
    }

    /// Takes the oldest items, `most` at most. Returns whether more are left. The caller must then call
    /// [`Completions::must_wake`].
    pub fn take(&self, most: usize) -> (VecDeque<T>, bool) {
        // Reset before the queue is read: an item that is pushed in between causes an extra wake-up, but is never
        // missed.
        self.waking.store(false, Ordering::SeqCst);
        let mut items = lock(&self.items);
        // A loop that takes a large number at once could do nothing else for long.
        let rest = if items.len() > most { items.split_off(most) } else { VecDeque::new() };
        let more = !rest.is_empty();
        (std::mem::replace(&mut *items, rest), more)
    }
}

impl<T> Default for Completions<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn wakes_the_loop_once_for_many() {
        let queue = Completions::new();
        assert!(!queue.must_wake(), "for nothing");
        queue.push([1, 2, 3]);
        assert!(queue.must_wake());
        queue.push([4]);
        assert!(!queue.must_wake(), "twice for one look");
        assert_eq!(queue.take(3), ([1, 2, 3].into(), true));
        assert!(queue.must_wake(), "for what was left");
        assert_eq!(queue.take(usize::MAX), ([4].into(), false));
        assert!(!queue.must_wake());
    }

    #[test]
    fn concurrent_pushes_leave_nothing_behind() {
        const EACH: u32 = 20_000;
        let (queue, (wake, woken)) = (Completions::new(), channel());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let wake = wake.clone();
                scope.spawn(|| {
                    let wake = wake;
                    for number in 0..EACH {
                        queue.push([number]);
                        if queue.must_wake() {
                            wake.send(()).unwrap();
                        }
                    }
                });
            }
            let mut seen = 0;
            while seen < 4 * EACH as usize {
                woken.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
                seen += queue.take(usize::MAX).0.len();
            }
        });
    }
}
