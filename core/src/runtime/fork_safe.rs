//! A future that a forked child neither polls nor drops.
//!
//! A child may continue a call of its parent, for example after a signal handler that forks. The call uses mutexes that
//! another thread of the parent may have held during the fork. In the child, they would stay locked forever.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::runtime::fork_generation;

/// Completes with the output of the future, or with `None` in a forked child.
pub(crate) struct ForkSafe<F> {
    future: ManuallyDrop<F>,
    /// The process that made the future.
    generation: u32,
}

impl<F> ForkSafe<F> {
    /// A future of this process.
    pub(crate) fn new(future: F) -> Self {
        Self { future: ManuallyDrop::new(future), generation: fork_generation() }
    }

    fn is_ours(&self) -> bool {
        self.generation == fork_generation()
    }
}

impl<F: Future> Future for ForkSafe<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_ours() {
            return Poll::Ready(None);
        }
        // SAFETY: the future is never moved out of its field, and is dropped in place.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        Poll::Ready(Some(ready!(future.poll(cx))))
    }
}

impl<F> Drop for ForkSafe<F> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.future) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;

    #[test]
    fn future_is_used_and_dropped_only_in_its_own_process() {
        let polled = |future: &mut ForkSafe<std::future::Ready<Arc<()>>>| {
            pin!(future).poll(&mut Context::from_waker(Waker::noop()))
        };
        let value = Arc::new(());
        let mut own = ForkSafe::new(std::future::ready(Arc::clone(&value)));
        assert!(matches!(polled(&mut own), Poll::Ready(Some(_))));
        drop(ForkSafe::new(std::future::ready(Arc::clone(&value))));
        assert_eq!(Arc::strong_count(&value), 1);
        let mut parents = ForkSafe::new(std::future::ready(Arc::clone(&value)));
        parents.generation = fork_generation().wrapping_sub(1);
        assert!(matches!(polled(&mut parents), Poll::Ready(None)));
        drop(parents);
        assert_eq!(Arc::strong_count(&value), 2, "neither polled nor dropped");
    }
}
