//! Sleeps on several connections, a wake-up descriptor and a timer.

use std::thread;
use std::time::Duration;

use smallvec::SmallVec;

use super::poller;
use super::used::AllUsed;
use super::way::{RECEIVE, Read};
use crate::runtime::WakeHandle;

/// The pause while another thread uses a connection.
const BUSY: Duration = Duration::from_micros(20);

/// Sleeps until a connection is readable, which is then read, or until a ring, a signal, or the end of `time`. Returns
/// false if the time is not over.
pub(super) fn sleep(all: &mut AllUsed, waker: &WakeHandle, time: Duration) -> bool {
    // Usually the thread waits for one reply of one server, which arrives soon.
    if time > RECEIVE && !waker.is_rung() && all.receive() {
        return false;
    }
    let mut ways: SmallVec<[usize; 5]> = SmallVec::new();
    let mut descriptors: SmallVec<[i32; 6]> = SmallVec::new();
    descriptors.push(waker.descriptor());
    for (at, used) in all.used.iter_mut().enumerate() {
        if let Some(descriptor) = used.descriptor().filter(|_| used.way.is_open()) {
            ways.push(at);
            descriptors.push(descriptor);
        } else {
            // Without outstanding replies, another thread may take the role.
            used.release_role();
        }
    }
    if time.is_zero() {
        return true;
    }
    if ways.is_empty() {
        waker.park(time);
        return true;
    }
    if !waker.begin_sleep() {
        return false;
    }
    let ready = poller::wait(&descriptors, time);
    waker.wake_up();
    for at in &ready {
        match at.checked_sub(1) {
            None => waker.clear(),
            // The thread inside may be suspended, and the descriptor stays readable.
            Some(at) if all.used[ways[at]].way.read() == Read::Busy => thread::sleep(BUSY),
            Some(_) => {}
        }
    }
    ready.is_empty()
}
