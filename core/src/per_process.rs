//! A value of this process: made at first use, and made anew in a forked child.
//!
//! A child inherits its parent's memory and none of its threads. Whatever was made under another
//! [`fork_generation`] is the parent's: it is neither used nor dropped, for its end could write into the parent's
//! sockets, or wait for threads that do not exist here.
//!
//! It knows nothing of what it keeps. The background thread, the log and each client's running parts are such
//! values.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwapOption;

/// Counted up in each child, before any of its code runs.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between the first process and this one; what was made under another number is the parent's.
pub fn fork_generation() -> u32 {
    #[cfg(unix)]
    {
        // Not a `Once`: a child that is forked while another thread is in it would wait there forever.
        static HOOKED: AtomicBool = AtomicBool::new(false);
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        if !HOOKED.load(Ordering::Acquire) {
            // Two threads may both register it: then a fork counts twice, which is another number all the same.
            // SAFETY: the hook only adds to an atomic, which is safe between fork and exec.
            unsafe {
                libc::pthread_atfork(None, None, Some(in_child));
            }
            HOOKED.store(true, Ordering::Release);
        }
    }
    GENERATION.load(Ordering::Relaxed)
}

/// A value of this process. No mutex: one that another thread held during a fork would stay locked in the child for
/// ever.
pub struct PerProcess<T>(ArcSwapOption<Made<T>>);

/// The value, and in which process it was made.
pub struct Made<T> {
    /// Never changes: a value cannot become the child's.
    generation: u32,
    value: T,
}

impl<T> Made<T> {
    /// A value that was made by this process.
    fn here(value: T, generation: u32) -> Arc<Self> {
        Arc::new(Self { generation, value })
    }

    /// Whether this process made it.
    fn is_ours(&self) -> bool {
        self.generation == fork_generation()
    }
}

impl<T> Deref for Made<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PerProcess<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self(ArcSwapOption::const_empty())
    }

    /// This process's value, if it was made already.
    pub fn get(&self) -> Option<Arc<Made<T>>> {
        self.0.load().as_ref().filter(|made| made.is_ours()).map(Arc::clone)
    }

    /// This process's value, made if there is none or none that is `good`. Of several threads that make one at the same
    /// time, one is chosen and the others' are dropped.
    pub fn get_or_try_make<E>(
        &self,
        good: impl Fn(&T) -> bool,
        make: impl Fn() -> Result<T, E>,
    ) -> Result<Arc<Made<T>>, E> {
        loop {
            // Made outside of any lock, as it may take long or fail: who comes second throws its own away.
            let current = self.0.load();
            if let Some(made) = current.as_ref()
                && made.is_ours()
                && good(made)
            {
                return Ok(Arc::clone(made));
            }
            // Read before it is made: what a fork interrupts is not the child's.
            let generation = fork_generation();
            let new = Made::here(make()?, generation);
            // Read again: whoever was first is the one, unless it is no good.
            leave_alone(self.0.compare_and_swap(&current, Some(new)).as_ref());
        }
    }

    /// This process's value, made if there is none.
    pub fn get_or_make(&self, make: impl Fn() -> T) -> Arc<Made<T>> {
        let value = self.get_or_try_make(|_| true, || Ok::<_, Infallible>(make()));
        value.unwrap_or_else(|never| match never {})
    }

    /// This process's value, which is no longer kept here.
    ///
    /// `None` also where it was the parent's.
    pub fn take(&self) -> Option<Arc<Made<T>>> {
        let taken = self.0.swap(None);
        leave_alone(taken.as_ref());
        taken.filter(|made| made.is_ours())
    }

    /// Puts a value here instead of what there was, which is the answer.
    pub fn replace(&self, value: T) -> Option<Arc<Made<T>>> {
        let old = self.0.swap(Some(Made::here(value, fork_generation())));
        leave_alone(old.as_ref());
        old.filter(|made| made.is_ours())
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The parent's value is never dropped here, whoever lets go of it last.
///
/// One reference to it is kept for ever, so that no other can be the last.
fn leave_alone<T>(made: Option<&Arc<Made<T>>>) {
    if let Some(parents) = made
        && !parents.is_ours()
    {
        std::mem::forget(Arc::clone(parents));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it is dropped.
    struct Dropped(Arc<AtomicU32>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_is_made_once_unless_it_is_no_good_any_more() {
        let (value, count) = (PerProcess::new(), AtomicU32::new(0));
        let make = || Ok::<_, ()>(count.fetch_add(1, Ordering::Relaxed));
        assert!(value.get().is_none());
        assert_eq!(**value.get_or_try_make(|_| true, make).unwrap(), 0);
        assert_eq!(**value.get_or_try_make(|_| true, make).unwrap(), 0);
        assert_eq!(**value.get_or_try_make(|number| *number > 0, make).unwrap(), 1);
        assert_eq!(value.take().map(|made| **made), Some(1));
        assert!(value.get_or_try_make(|_| true, || Err::<u32, _>("no thread")).is_err());
        assert!(value.get().is_none());
        assert_eq!(**value.get_or_make(|| 7), 7);
    }

    #[test]
    fn what_the_parent_made_is_neither_used_nor_dropped() {
        let drops = Arc::new(AtomicU32::new(0));
        let parents = || {
            let generation = fork_generation().wrapping_sub(1);
            let made = Made::here(Dropped(Arc::clone(&drops)), generation);
            PerProcess(ArcSwapOption::new(Some(made)))
        };
        let value = parents();
        assert!(value.get().is_none());
        drop(value.get_or_make(|| Dropped(Arc::clone(&drops))));
        assert!(value.get().is_some());
        assert!(parents().take().is_none());
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(value);
        assert_eq!(drops.load(Ordering::Relaxed), 1, "the child's own");
    }
}
