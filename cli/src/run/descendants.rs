//! The processes that the command has started, also those that have left its process group, such as what `timeout` runs
//! in a script.
//!
//! This process becomes the parent of those whose own parent has ended, so all of them are below it.

use std::fs;

use libc::{c_int, pid_t};

/// Makes this process the parent of every process below it whose parent ends. Without it, those are not found.
pub(super) fn adopt_orphans() {
    // SAFETY: a system call without memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Lets ended orphans disappear. The command itself must have been reaped before.
pub(super) fn reap_orphans() {
    // SAFETY: the status is not wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Every process below this one, parents first.
pub(super) fn descendants() -> Vec<pid_t> {
    let mut found = vec![std::process::id().cast_signed()];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        found.extend(children(*parent));
        at += 1;
    }
    found.split_off(1)
}

/// Sends a signal to those outside of a process group.
pub(super) fn signal_outside(group: pid_t, signal: c_int) {
    for process in descendants() {
        // SAFETY: system calls without memory. Only an ended process has no group.
        unsafe {
            let own = libc::getpgid(process);
            if own != group && own != -1 {
                libc::kill(process, signal);
            }
        }
    }
}

/// The children of each thread of a process. None if it has ended, or if the kernel does not list them.
fn children(parent: pid_t) -> Vec<pid_t> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().flat_map(|thread| fs::read_to_string(thread.path().join("children")));
    lists
        .flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}
