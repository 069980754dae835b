//! The core's guarantees, each with the test that would fail without it.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(clippy::struct_excessive_bools, reason = "vectors are rows of yes and no")]

mod api;
mod attempt;
mod blocking;
mod cluster;
mod cluster_setups;
mod connecting;
mod crates;
mod credentials;
mod crowd;
#[cfg(feature = "waitaof")]
mod disks;
mod endings;
mod errors;
mod existing;
#[allow(dead_code, reason = "what is shared is used by the other tests")]
mod fake;
mod faults;
mod fencing;
mod ffi;
mod idle;
mod imports;
mod imports_node;
mod imports_python;
mod keeping;
#[cfg(target_os = "linux")]
mod limit;
mod load;
mod options;
mod polling;
mod proxies;
mod quorum;
mod receiving;
mod refusals;
mod refused_deletes;
mod replay;
mod replicas;
mod rights;
#[cfg(unix)]
mod runtime;
#[cfg(unix)]
mod runtime_over;
mod scope;
mod scripts;
mod secrets;
mod sentinel;
mod single;
mod small;
mod stats;
mod support;
mod testing;
mod tick;
mod tidy;
mod timing;
mod tls;
mod together;
mod urls;
mod vectors;
mod waiting;
