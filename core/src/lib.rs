//! Distributed locks over Redis and Valkey, on one node or on a quorum of independent ones (Redlock).
//!
//! A [`Redlock`] is a client for one set of nodes. [`Redlock::lock`] describes a [`Lock`] by its name and options.
//! [`Lock::acquire`] returns a [`Lease`], which a background thread renews until you release or drop it.
//!
//! ```
//! use redlock::{Error, Redlock};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let client = Redlock::builder(["memory://"]).build()?; // your server: redis://127.0.0.1:6379
//!
//! let lock = client.lock("orders:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5));
//! let lease = lock.acquire().await?;
//! lease.ensure_held()?; // fails with `ErrorKind::Lost` if the lease has ended
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Lock::acquire_blocking`] and the other methods that end in `_blocking` need no async runtime.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `tls` | yes | `rediss://` URLs, by rustls |
//! | `tracing` | yes | log events for the `tracing` crate |
//! | `metrics` | no | metrics for the `metrics` crate |
//! | `redis` | no | `from_connection_info`, which takes the servers of a client of the `redis` crate |
//! | `testing` | no | a client for tests, with a clock that the test advances |

// Each folder is one duty. They are listed from top to bottom, and each module only uses modules below it, which a test
// checks. `client` makes a `lock`, which uses the client's `engine`. `acquire` runs rounds of votes until it has a
// lease. `lease` renews a lease and detects its loss. `quorum` counts the votes, and each `node` votes.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Some items are only used by the bindings or by TLS. With all features enabled, none may be unused.
#![cfg_attr(
    not(all(feature = "ffi", feature = "redis", feature = "tls")),
    allow(dead_code, unreachable_pub, unused_imports, reason = "a build that has less uses less")
)]

// For the two bindings, which are separate crates. Rust programs use the items below.
#[cfg(feature = "ffi")]
#[doc(hidden)]
pub mod ffi;

#[cfg(feature = "testing")]
pub mod testing;

mod client;
mod engine;
mod lock;
mod options;
mod primitive;

mod acquire;
mod fairness;
mod lease;
mod quorum;

mod drivers;
mod node;

mod telemetry;

mod clock;
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(dead_code, reason = "other systems have no loop that reads, or no descriptor")
)]
mod runtime;

mod collections;
mod error;
mod text;

// The public interface is flat, independent of the modules.
pub use client::{Builder, Redlock};
pub use error::{Error, ErrorKind, LossReason, NodeReport, NodeState, Result};
pub use lease::{Lease, LeaseHandle};
pub use lock::{Inspection, Leader, Lock, Names, NodeInspection, NodePing, Once, Ping, RwLock};
pub use node::credentials::Credentials;
#[cfg(feature = "tls")]
pub use node::{Pem, TlsOptions};
pub use options::lock::{LONG_TTL, MIN_TTL};
pub use telemetry::Stats;

/// The TLS library of the configurations that [`TlsOptions::config`] accepts, in the matching version.
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;

#[cfg(test)]
mod tests;
