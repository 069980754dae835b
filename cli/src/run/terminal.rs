//! The terminal, which has one foreground process group at a time.
//!
//! A process of another group is stopped when it reads the terminal. The command gets the terminal when that happens,
//! not earlier, so that a pipeline such as `redlock run job -- produce | less` stays in the foreground with its shell.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

use libc::pid_t;

/// The terminal of this session.
pub(super) struct Terminal(File);

impl Terminal {
    /// `None` in a session without one, such as that of cron or a service.
    pub(super) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Self)
    }

    /// Whether this process, or the command, is in its foreground.
    pub(super) fn has_in_foreground(&self, group: pid_t) -> bool {
        // SAFETY: system calls without memory.
        unsafe { libc::tcgetpgrp(self.descriptor()) == group }
    }

    /// Puts a group into its foreground.
    pub(super) fn give_to(&self, group: pid_t) {
        // A group in the background is stopped by this call, unless it blocks the signal.
        // SAFETY: the set is initialized by the first call, and the pointers are valid.
        unsafe {
            let (mut blocked, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
            libc::sigemptyset(&raw mut blocked);
            libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
            libc::tcsetpgrp(self.descriptor(), group);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }

    fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
