//! A thread that waits writes and reads by itself what it waits for: nobody else has to be woken for it.
//!
//! While a future is polled in [`wait`], the connections that it asks are noted here, and its timers are kept here. Then the
//! thread sleeps on all of them at once, and on a descriptor by which other threads wake it. It knows no node: a connection is a [`Way`].
//!
//! Where a thread cannot do that - the system has no such sleep, or no descriptor is left to wake it, or too little is left of
//! its stack - it parks, and the background thread does its work.

mod here;
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "foreground/no_runtime.rs")]
mod on_runtime;
#[cfg(unix)]
mod place;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod poller;
#[cfg(unix)]
mod sleep;
#[cfg(unix)]
mod stack;
#[cfg(all(test, unix))]
mod tests;
#[cfg(unix)]
mod wait;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod watched;
mod way;

pub(crate) use here::{Here, Parked, Timed, asked, timer};
pub(crate) use on_runtime::{OnRuntime, flush};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use poller::Poller;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use stack::is_roomy;
#[cfg(unix)]
pub(crate) use wait::wait;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use watched::{ENOUGH, Watched};
pub(crate) use way::{RECEIVE, Seat, Way};
