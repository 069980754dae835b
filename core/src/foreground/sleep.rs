//! Sleeps on several connections, a wake-up descriptor and a timer.

use std::thread;
use std::time::Duration;

use smallvec::SmallVec;

use super::place::Place;
use super::way::RECEIVE;
use crate::runtime::WakeHandle;

/// So long another thread has for what it does with a connection.
const MOMENT: Duration = Duration::from_micros(20);

/// Sleeps until a connection is readable, which is then read, or until a ring, a signal, or the end of `time`. Returns
/// false if the time is not over.
pub(super) fn sleep(places: &mut [Place], waker: &WakeHandle, time: Duration) -> bool {
    // Most wait for one answer of one server, which is there in a moment.
    if let [place] = places
        && time > RECEIVE
        && !waker.is_rung()
        && place.receive()
    {
        return false;
    }
    let mut ways: SmallVec<[usize; 5]> = SmallVec::new();
    let mut polled: SmallVec<[libc::pollfd; 6]> = SmallVec::new();
    let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    polled.push(readable(waker.descriptor()));
    for (at, place) in places.iter_mut().enumerate() {
        if let Some(descriptor) = place.descriptor() {
            ways.push(at);
            polled.push(readable(descriptor));
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
        // An error, too, is read.
        if polled.revents != 0 && !places[at].way.turn(true) {
            // Another thread is in it, and may be suspended.
            thread::sleep(MOMENT);
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
    // SAFETY: there are so many, the time is valid, and no mask is given. A failure finds nothing to read.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null()) > 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn poll(polled: &mut [libc::pollfd], time: Duration) -> bool {
    // Late rather than early: it counts in milliseconds.
    let time = i32::try_from(time.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: there are so many. A failure finds nothing to read.
    unsafe { libc::poll(polled.as_mut_ptr(), count, time) > 0 }
}
