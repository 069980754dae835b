//! Distributed locks over Redis: on one node, or on a quorum of independent ones (Redlock).
//!
//! ```no_run
//! # async fn example() -> Result<(), redlock::Error> {
//! use std::time::Duration;
//! let redlock = redlock::Redlock::builder(["redis://127.0.0.1:6379"]).build()?;
//! let lease = redlock.lock("job").ttl(Duration::from_secs(10)).acquire().await?;
//! lease.release().await
//! # }
//! ```
//!
//! Read it from the top down; a module calls only what stands below it:
//! [`Redlock`] (`client`) makes a [`Lock`] (`lock`; `acquire`: ask, wait, ask again), which gives a [`Lease`]
//! (`lease`: what is held, and its loss) that the `keeper` extends; rounds and their tally are in
//! `quorum`, waiting in `queue` and `wait`, one server in `node`, time in `clock`, the thread that drives I/O in `background`,
//! what is logged on its way to the program's subscriber in `log`.

mod acquire;
mod attach;
mod background;
mod ballot;
mod builder;
mod client;
pub mod clock;
mod contention;
mod elsewhere;
mod error;
mod exit;
mod extend;
mod failure;
mod fence;
mod inspect;
mod keeper;
mod lease;
mod live;
mod lock;
mod log;
mod node;
mod options;
mod queue;
mod quorum;
mod renew;
mod round;
mod shutdown;
mod spelling;
mod state;
mod text;
mod wait;

#[doc(hidden)]
pub use background::{Task, fork_generation, spawn};
pub use builder::{Builder, default_nodes};
pub use client::Redlock;
pub use elsewhere::instead_of;
pub use error::{Error, ErrorKind, LossReason, NodeReport, Result};
#[doc(hidden)]
pub use failure::NOT_REENTRANT;
pub use inspect::{Inspection, NodeInspection};
pub use lease::{Hold, Lease};
pub use lock::Lock;
#[doc(hidden)]
pub use log::log_in_place;
pub use node::TlsOptions;
pub use options::{ClientArgs, LONG_TTL, LockArgs, MIN_TTL, Names, Unit};
pub use quorum::{Tally, drift};
#[doc(hidden)]
pub use spelling::spell_in_camel_case;
#[doc(hidden)]
pub use state::Owner;
#[doc(hidden)]
pub use text::shown;

#[cfg(all(test, target_os = "linux"))]
#[path = "../../tests/rust/limit.rs"]
mod limit;

#[cfg(test)]
#[allow(
    clippy::cast_precision_loss,
    clippy::type_complexity,
    clippy::too_many_arguments,
    clippy::struct_excessive_bools,
    reason = "a simulation prints its times and passes its world around"
)]
#[path = "../../tests/simulation/mod.rs"]
mod simulation;
