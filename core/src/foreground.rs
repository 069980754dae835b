//! Lets a waiting thread write its commands and read their replies, without a switch to another thread.
//!
//! While [`wait`] polls a future, this module records the connections to which it submits commands, and its timers. The
//! thread then sleeps on all of them, and on a descriptor that wakes it. A connection is a [`Way`].
//!
//! A thread that cannot do so parks, and the background thread does its work. This applies if the system cannot sleep on
//! several descriptors, if no descriptor is left, or if the stack is almost full.

mod here;
mod on_runtime;
mod poller;
mod reactor;
mod sleep;
mod stack;
#[cfg(all(test, unix))]
mod tests;
mod used;
mod wait;
mod way;

pub(crate) use here::{Here, Parked, Timed, asked, timer};
pub(crate) use on_runtime::{OnRuntime, flush};
pub(crate) use poller::Poller;
pub(crate) use reactor::{ENOUGH, Reactor};
pub(crate) use stack::is_roomy;
pub(crate) use wait::wait;
pub(crate) use way::{RECEIVE, Read, ReaderRole, Way};
