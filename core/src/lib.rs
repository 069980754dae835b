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
//! The modules below stand from the top down: each calls only what stands below it, which a test checks.
//! [`Redlock`] (`client`) makes a [`Lock`] (`lock`), which asks the `engine` behind it. That has rounds of votes
//! made by `acquire`, until there is a [`Lease`] (`lease`: its life, its renewals and its loss). Votes are counted
//! by `quorum` and given by a `node`. Beside them, at the bottom: time, the background thread, the log, and how
//! words are written.

// What only the bindings use, or TLS, is there unused without them; with all features none of it may be.
#![cfg_attr(
    not(all(feature = "ffi", feature = "tls")),
    allow(dead_code, unreachable_pub, unused_imports, reason = "a build that has less uses less")
)]

// For the two bindings, which are crates of their own: Rust users have what stands below.
#[cfg(feature = "ffi")]
#[doc(hidden)]
pub mod ffi;

#[cfg(feature = "testing")]
pub mod testing;

mod blocking;
mod builder;
mod client;
mod environment;
mod lock;
mod scope;
mod unwind;

mod engine;

mod acquire;
mod inspect;
mod lease;

mod config;
mod names;
mod options;

#[cfg_attr(not(feature = "metrics"), path = "unmetered.rs")]
mod meter;
mod quorum;
mod stats;

mod node;

mod clock;
mod error;
mod exit;
mod listener;
#[cfg_attr(not(feature = "tracing"), path = "silent.rs")]
mod log;
mod record;
#[cfg_attr(not(feature = "tracing"), path = "silent_spans.rs")]
mod spans;

mod background;
#[cfg_attr(
    not(unix),
    allow(dead_code, unused_imports, reason = "no thread of other systems waits so")
)]
mod foreground;
mod keyed;
mod park;
mod per_process;
mod spelling;
mod text;

// All that Rust users see, flat: where a word lives is no business of theirs.
pub use builder::Builder;
pub use client::Redlock;
pub use error::{Error, ErrorKind, LossReason, NodeReport, NodeState, Result};
pub use inspect::{Inspection, NodeInspection};
pub use lease::{Lease, LeaseHandle};
pub use lock::Lock;
pub use names::Names;
pub use node::credentials::Credentials;
#[cfg(feature = "tls")]
pub use node::{Pem, TlsOptions};
pub use options::{LONG_TTL, MIN_TTL};
pub use stats::Stats;

/// The TLS library that [`TlsOptions::config`] takes a configuration of, in the version that it takes.
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;

#[cfg(all(test, target_os = "linux"))]
#[path = "../limit.rs"]
mod limit;

// Among the unit tests, as it drives the real rounds, leases, renewals and waiting, which nobody else should see.
#[cfg(test)]
#[allow(
    clippy::cast_precision_loss,
    clippy::type_complexity,
    clippy::too_many_arguments,
    clippy::struct_excessive_bools,
    reason = "a simulation prints its times and passes its world around"
)]
#[path = "../simulation/mod.rs"]
mod simulation;

/// The blocks of the page, which are programs, run with the other examples; one of them is a test with our help.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../rust.md")]
struct Page;
