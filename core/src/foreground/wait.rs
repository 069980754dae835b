//! Polls a future on the waiting thread, which reads the replies itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::here::Here;
use super::sleep::sleep;
use super::stack;
use super::used::AllUsed;
use crate::clock::machine;
use crate::runtime::WakeHandle;

/// Polls a future whenever it is woken, for at most `time`. Returns `None` if this thread cannot read.
pub(crate) fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Option<Poll<F::Output>> {
    if !stack::is_roomy() {
        return None;
    }
    let handle = WakeHandle::of_thread()?;
    let waker = Waker::from(Arc::clone(&handle));
    let mut end = None;
    // The order matters: the last commands are written while `Here` exists.
    let _here = Here::begin();
    let mut used = AllUsed::default();
    loop {
        if handle.look() {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(Poll::Ready(value));
            }
            used.write();
        }
        // Once for each sleep, because the clock costs a hundredth of a pair.
        let now = machine::now();
        let end = *end.get_or_insert_with(|| now + time);
        let until = Here::next_timer().map_or(end, |next| next.min(end));
        if sleep(&mut used, &handle, until.since(now)) {
            let now = machine::now();
            Here::ring_due(now);
            if !handle.is_rung() && now >= end {
                return Some(Poll::Pending);
            }
        }
    }
}
