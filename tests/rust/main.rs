//! The core's guarantees, each with the test that would fail without it.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(clippy::struct_excessive_bools, reason = "vectors are rows of yes and no")]

mod address_map;
mod api;
mod attempt;
mod batching;
mod blocking;
#[cfg(unix)]
mod cli;
mod cluster;
mod cluster_setups;
mod connecting;
mod connection_info;
mod crates;
mod credentials;
#[cfg(target_os = "linux")]
mod drivers;
mod errors;
mod fake;
mod fencing;
mod ffi;
#[cfg(feature = "waitaof")]
mod fsync;
mod idle;
mod imports;
mod kinds;
mod labels;
mod leader;
#[cfg(target_os = "linux")]
#[path = "../../core/src/tests/limit.rs"]
mod limit;
mod load;
mod min_hold;
mod once;
mod permanent_errors;
mod ping;
mod polling;
mod proxies;
mod quorum;
mod refused_commands;
mod refused_deletes;
mod renewal;
mod replaced;
mod replay;
mod replicas;
mod rights;
mod roles;
#[cfg(unix)]
mod runtime;
#[cfg(unix)]
mod runtime_lifecycle;
mod rwlock;
mod rwlock_faults;
mod scope;
mod semaphore;
mod sentinel;
mod server_errors;
mod shutdown;
mod simple_strings;
mod single;
mod stats;
mod support;
mod task_budget;
mod testing;
mod thread_reader;
mod tidy;
mod timing;
mod tls;
#[cfg(unix)]
mod tls_backlog;
mod tls_certificates;
mod tls_ends;
mod urls;
mod vectors;
mod waiting;
