//! Values for one process: made at first use, and made again after a fork, because the child must not use its parent's.
//!
//! A child inherits its parent's memory but none of its threads. A value of another [`fork_generation`] belongs to the
//! parent. It is neither used nor dropped, because that could write to the parent's sockets, or wait forever for a
//! mutex that another thread of the parent held during the fork.
//!
//! The background thread, the log, and the running parts of each client are such values. So is the future of each call,
//! which a child continues if, for example, a signal handler forks during the call.
//!
//! [`Owned`] is the same for values with a descriptor, which the program may also close.
//!
//! A child does not close its parent's descriptors either. A daemon closes all inherited descriptors, and its own files
//! then have the same numbers. No check tells them apart, because all eventfds have one inode. The child therefore
//! keeps those of the thread that forked, a few for each event loop and each level of forks. It also keeps the sockets
//! of each client and the descriptors of the background thread.

use std::convert::Infallible;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use arc_swap::ArcSwapOption;
use tokio::task::coop::unconstrained;

use super::descriptor_generation;

/// Incremented in each child, before any of its code runs.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The number of forks between the first process and this one.
///
/// A value that was made under another number belongs to the parent.
pub fn fork_generation() -> u32 {
    #[cfg(unix)]
    {
        // Not a `Once`: if a process forks while another thread runs it, the child would wait forever.
        static HOOKED: AtomicBool = AtomicBool::new(false);
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        if !HOOKED.load(Ordering::Acquire) {
            // Two threads may both register the hook. A fork then counts twice, which is harmless.
            // SAFETY: the hook only adds to an atomic, which is safe between fork and exec.
            unsafe {
                libc::pthread_atfork(None, None, Some(in_child));
            }
            HOOKED.store(true, Ordering::Release);
        }
    }
    GENERATION.load(Ordering::Relaxed)
}

/// A value of this process.
///
/// It has no mutex: if another thread held one during a fork, it would stay locked in the child forever.
pub struct PerProcess<T>(ArcSwapOption<Made<T>>);

/// A value, and the process that made it. A forked child never drops it.
pub type Made<T> = Guarded<T, false>;

/// A value with a descriptor. After a fork, or after the program has closed its descriptor, it is leaked: dropping it
/// could close a descriptor of another part of the program.
pub type Owned<T> = Guarded<T, true>;

/// A [`Made`] or an [`Owned`] value. This is the only check of the process of a value.
pub struct Guarded<T, const HAS_DESCRIPTOR: bool> {
    /// Constant: the value of a parent never becomes the child's.
    generation: u32,
    value: ManuallyDrop<T>,
}

impl<T, const HAS_DESCRIPTOR: bool> Guarded<T, HAS_DESCRIPTOR> {
    /// A value that this process makes now.
    pub fn new(value: T) -> Self {
        Self::by(Self::current(), value)
    }

    fn by(generation: u32, value: T) -> Self {
        Self { generation, value: ManuallyDrop::new(value) }
    }

    /// A value that the parent of a forked child made.
    #[cfg(test)]
    pub(crate) fn of_parent(value: T) -> Self {
        Self::by(Self::current().wrapping_sub(1), value)
    }

    fn current() -> u32 {
        if HAS_DESCRIPTOR { descriptor_generation() } else { fork_generation() }
    }

    /// Another value of the same process.
    pub(crate) fn in_same_process<U>(&self, value: U) -> Guarded<U, HAS_DESCRIPTOR> {
        Guarded::by(self.generation, value)
    }

    /// Whether this process made the value, and has not closed its descriptor, as far as is known.
    pub fn is_ours(&self) -> bool {
        self.generation == Self::current()
    }

    /// The value, if it [is ours](Self::is_ours).
    pub fn ours(&self) -> Option<&T> {
        self.is_ours().then_some(&self.value)
    }
}

impl<T: Default, const HAS_DESCRIPTOR: bool> Default for Guarded<T, HAS_DESCRIPTOR> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, const HAS_DESCRIPTOR: bool> Deref for Guarded<T, HAS_DESCRIPTOR> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Completes with the output of the future, or immediately with `None` in a forked child.
impl<F: Future> Future for Made<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_ours() {
            return Poll::Ready(None);
        }
        // SAFETY: the future is never moved out of its field, and is dropped in place.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.value) };
        // Without tokio's cooperative budget. It ends after 128 operations in a turn of a task, and tokio then wakes a
        // future only after that turn. Under another executor in a task, the call would never end.
        Poll::Ready(Some(ready!(pin!(unconstrained(future)).poll(cx))))
    }
}

impl<T, const HAS_DESCRIPTOR: bool> DerefMut for Guarded<T, HAS_DESCRIPTOR> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T, const HAS_DESCRIPTOR: bool> Drop for Guarded<T, HAS_DESCRIPTOR> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T> PerProcess<T> {
    /// No value yet.
    pub const fn new() -> Self {
        Self(ArcSwapOption::const_empty())
    }

    /// This process's value, if it exists.
    pub fn get(&self) -> Option<Arc<Made<T>>> {
        self.0.load().as_ref().filter(|made| made.is_ours()).map(Arc::clone)
    }

    /// This process's value. Makes it if there is none, or if it is not `good`.
    ///
    /// If several threads make one at the same time, one value is chosen and the others are dropped.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub fn get_or_try_make<E>(
        &self,
        good: impl Fn(&T) -> bool,
        make: impl Fn() -> Result<T, E>,
    ) -> Result<Arc<Made<T>>, E> {
        loop {
            // Made without a lock, because it may take long or fail. The slower thread drops its value.
            let current = self.0.load();
            if let Some(made) = current.as_ref()
                && made.is_ours()
                && good(made)
            {
                return Ok(Arc::clone(made));
            }
            // Read before `make`: if a fork interrupts it, the value does not belong to the child.
            let generation = fork_generation();
            let new = Arc::new(Made::by(generation, make()?));
            // The loop reads the value again. It is that of the first thread, unless it is not good.
            drop(self.0.compare_and_swap(&current, Some(new)));
        }
    }

    /// This process's value. Makes it if there is none.
    pub fn get_or_make(&self, make: impl Fn() -> T) -> Arc<Made<T>> {
        let value = self.get_or_try_make(|_| true, || Ok::<_, Infallible>(make()));
        value.unwrap_or_else(|never| match never {})
    }

    /// Removes and returns this process's value.
    ///
    /// Returns `None` for a value of the parent.
    pub fn take(&self) -> Option<Arc<Made<T>>> {
        self.0.swap(None).filter(|made| made.is_ours())
    }

    /// Replaces the value, and returns the previous one.
    pub fn replace(&self, value: T) -> Option<Arc<Made<T>>> {
        self.0.swap(Some(Arc::new(Made::new(value)))).filter(|made| made.is_ours())
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// Counts how often it is dropped.
    struct Dropped(Arc<AtomicU32>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn created_once_and_replaced_when_invalid() {
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
    fn parents_value_is_neither_used_nor_dropped() {
        let drops = Arc::new(AtomicU32::new(0));
        let parents = || {
            let made = Made::of_parent(Dropped(Arc::clone(&drops)));
            PerProcess(ArcSwapOption::new(Some(Arc::new(made))))
        };
        drop(parents());
        let value = parents();
        assert!(value.get().is_none());
        drop(value.get_or_make(|| Dropped(Arc::clone(&drops))));
        assert!(value.get().is_some());
        assert!(parents().take().is_none());
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(value);
        assert_eq!(drops.load(Ordering::Relaxed), 1, "the child's own");
    }

    #[test]
    fn future_is_polled_and_dropped_only_in_its_own_process() {
        let polled = |future: &mut Made<std::future::Ready<Arc<()>>>| {
            pin!(future).poll(&mut Context::from_waker(Waker::noop()))
        };
        let value = Arc::new(());
        let mut own = Made::new(std::future::ready(Arc::clone(&value)));
        assert!(matches!(polled(&mut own), Poll::Ready(Some(_))));
        drop(Made::new(std::future::ready(Arc::clone(&value))));
        assert_eq!(Arc::strong_count(&value), 1);
        let mut parents = Made::of_parent(std::future::ready(Arc::clone(&value)));
        assert!(matches!(polled(&mut parents), Poll::Ready(None)));
        drop(parents);
        assert_eq!(Arc::strong_count(&value), 2, "neither polled nor dropped");
    }
}
