//! What is done, on its way to one event loop: a queue, and one wake-up of the loop for many.
//!
//! The background thread pushes and never waits for the loop; the loop takes as many as it likes at once. One
//! wake-up for each completion would cost more than the completion: a system call, and a turn of the loop.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A queue that any thread may push into, for a loop that must be woken to look.
pub struct Completions<T> {
    /// In the order in which they were done. Held for a push or a take only, never while the loop is woken.
    items: Mutex<VecDeque<T>>,
    /// A wake-up is under way that has not looked into the queue yet.
    waking: AtomicBool,
}

impl<T> Completions<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self { items: Mutex::new(VecDeque::new()), waking: AtomicBool::new(false) }
    }

    /// What is done and not taken yet.
    fn items(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds these; whoever has added all that there is for now asks [`Completions::must_wake`].
    pub fn push(&self, items: impl IntoIterator<Item = T>) {
        self.items().extend(items);
    }

    /// Whether the caller must wake the loop: there is something, and nobody is waking it already.
    ///
    /// True for one of all who ask at a time; it stays theirs to do until the loop takes.
    pub fn must_wake(&self) -> bool {
        !self.items().is_empty() && !self.waking.swap(true, Ordering::SeqCst)
    }

    /// The oldest, at most so many, and whether more are left: whoever leaves some asks [`Completions::must_wake`].
    pub fn take(&self, most: usize) -> (VecDeque<T>, bool) {
        // Before the queue is emptied: what is pushed in between wakes once more, rather than not at all.
        self.waking.store(false, Ordering::SeqCst);
        let mut items = self.items();
        // A loop that takes all of a flood at once would do nothing else for long.
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
    fn a_loop_is_woken_once_for_many() {
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
    fn nothing_is_left_behind_whoever_pushes_meanwhile() {
        const EACH: u32 = 20_000;
        let (queue, (bell, woken)) = (Completions::new(), channel());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let bell = bell.clone();
                scope.spawn(|| {
                    let bell = bell;
                    for number in 0..EACH {
                        queue.push([number]);
                        if queue.must_wake() {
                            bell.send(()).unwrap();
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
