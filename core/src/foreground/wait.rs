//! A wait: polls a future, and sleeps on what it asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::here::Here;
use super::place::Places;
use super::sleep::sleep;
use super::stack;
use crate::clock::machine;
use crate::runtime::WakeHandle;

/// Polls a future as often as it is woken, for so long at most; `None`: this thread cannot wait in this way.
pub(crate) fn wait<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Option<Poll<F::Output>> {
    if !stack::is_roomy() {
        return None;
    }
    let handle = WakeHandle::of_thread()?;
    let waker = Waker::from(Arc::clone(&handle));
    let mut end = None;
    // In this order: what was asked last is written while it is still known that this thread waits.
    let _here = Here::begin();
    let mut places = Places::default();
    loop {
        if handle.look() {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(Poll::Ready(value));
            }
            places.turn();
        }
        // Once for each sleep: the clock costs as much as a hundredth of a pair.
        let now = machine::now();
        let end = *end.get_or_insert_with(|| now + time);
        let until = Here::next_timer().map_or(end, |next| next.min(end));
        if sleep(&mut places.0, &handle, until.since(now)) {
            let now = machine::now();
            Here::ring_due(now);
            if !handle.is_rung() && now >= end {
                return Some(Poll::Pending);
            }
        }
    }
}
