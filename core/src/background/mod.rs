//! The one background thread of a process: connections, renewals and timers live here.
//!
//! It never runs user code, so neither a blocked event loop nor a busy interpreter can delay a renewal; and it is
//! in the core, so that three languages have the same one. A forked child has no copy of the thread; it starts its
//! own at first use and leaves the parent's alone.
//!
//! A thread that waits for an answer does its work meanwhile, which spares both the way to each other: leader and
//! followers, as the pattern is called (Schmidt et al., 2000).

mod leadership;
mod process;
mod task;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use process::{handle, left_work, on_background};
pub(crate) use task::sleep;
pub use task::{Task, spawn};
pub use wait::wait;
