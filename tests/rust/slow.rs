//! The slow tier: tests that need real seconds, or that other tests would disturb.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

#[cfg(target_os = "linux")]
mod limit;
mod support;

mod slow {
    mod attempt;
    mod back;
    mod cluster;
    mod cluster_setups;
    mod connecting;
    mod endings;
    mod faults;
    mod keeping;
    mod late;
    mod leaks;
    #[cfg(target_os = "linux")]
    mod looks;
    mod minority;
    mod proxies;
    mod pushes;
    mod quorum;
    mod receiving;
    mod replicas;
    #[cfg(unix)]
    mod runtime;
    #[cfg(unix)]
    mod runtime_over;
    mod sentinel;
    mod tick;
    mod tls_stall;
    mod together;
    mod waiting;
    mod wake;
}
