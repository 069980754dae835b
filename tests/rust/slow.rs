//! The slow tier: tests that need real seconds, or that other tests would disturb.

#![allow(missing_docs, reason = "tests document themselves by their names")]
#![allow(dead_code, reason = "what is shared is used by the other tests")]

#[cfg(unix)]
#[path = "cli/command.rs"]
mod command;
#[cfg(target_os = "linux")]
#[path = "../../core/src/tests/limit.rs"]
mod limit;
mod support;

mod slow {
    mod attempt;
    mod batching;
    mod bursts;
    #[cfg(target_os = "linux")]
    mod calls;
    #[cfg(unix)]
    mod cli;
    mod cluster;
    mod cluster_setups;
    mod connecting;
    mod demoted;
    #[cfg(target_os = "linux")]
    mod event_loop;
    mod late_delivery;
    mod leaks;
    mod min_hold;
    mod minority;
    mod pending_deletes;
    mod proxies;
    mod pushes;
    mod quorum;
    mod reconnect;
    mod renewal;
    mod replicas;
    #[cfg(unix)]
    mod runtime;
    #[cfg(unix)]
    mod runtime_lifecycle;
    mod sentinel;
    mod server_errors;
    mod shutdown;
    mod testing;
    mod thread_reader;
    mod tls_stall;
    mod waiting;
    mod wake;
}
