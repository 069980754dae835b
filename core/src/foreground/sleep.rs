//! Sleeps on several connections, a wake-up descriptor and a timer.

use std::thread;
use std::time::Duration;

use smallvec::SmallVec;

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
    let mut polled: SmallVec<[libc::pollfd; 6]> = SmallVec::new();
    let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    polled.push(readable(waker.descriptor()));
    for (at, used) in all.used.iter_mut().enumerate() {
        if let Some(descriptor) = used.descriptor().filter(|_| used.way.is_open()) {
            ways.push(at);
            polled.push(readable(descriptor));
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
    let found = poll(&mut polled, time);
    waker.wake_up();
    if polled[0].revents != 0 {
        waker.clear();
    }
    for (polled, at) in polled[1..].iter().zip(ways) {
        // An error is read too.
        if polled.revents != 0 && all.used[at].way.read() == Read::Busy {
            // The thread inside may be suspended, and the descriptor stays readable.
            thread::sleep(BUSY);
        }
    }
    !found
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn poll(polled: &mut [libc::pollfd], time: Duration) -> bool {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().cast_signed().into(),
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the number is right, the time is valid, and there is no mask. A failure finds nothing to read.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null()) > 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn poll(polled: &mut [libc::pollfd], time: Duration) -> bool {
    // Rounded up to milliseconds.
    let time = i32::try_from(time.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the number is right. A failure finds nothing to read.
    unsafe { libc::poll(polled.as_mut_ptr(), count, time) > 0 }
}
