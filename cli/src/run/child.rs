//! The process of the command, and its process group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use libc::{SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, c_int, pid_t};

#[cfg(target_os = "linux")]
use super::descendants;
use super::signals::suspend;
use super::terminal::Terminal;

/// A running command, which leads a process group.
pub(super) struct Child {
    group: pid_t,
    /// The terminal, while the group is in its foreground.
    terminal: Option<Terminal>,
}

/// The environment of the command: names and values, without which a name is removed.
pub(super) type Environment<'a> = &'a [(&'static str, Option<String>)];

impl Child {
    /// Starts the command. It gets the signal `orphaned` if this process dies without reporting the loss of the lock.
    pub(super) fn start(
        words: &[OsString],
        environment: Environment,
        orphaned: Option<c_int>,
    ) -> io::Result<Self> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        #[cfg(target_os = "linux")]
        if let Some(signal) = orphaned {
            descendants::adopt_orphans();
            end_with_this_process(&mut command, signal);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = orphaned;
        pass_on_streams();
        let child = command.spawn()?;
        Ok(Self { group: child.id().cast_signed(), terminal: None })
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: c_int) {
        // SAFETY: a system call without memory. The group exists until its leader is reaped.
        unsafe { libc::kill(-self.group, signal) };
    }

    /// Sends a signal to every process that the command has started, as far as the system tells them.
    pub(super) fn signal_all(&self, signal: c_int) {
        // Without processes, another group may have its number by now.
        if self.has_group() {
            self.signal(signal);
        }
        #[cfg(target_os = "linux")]
        descendants::signal_outside(self.group, signal);
    }

    /// Whether a process is left of the command, which has ended.
    pub(super) fn has_processes(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            descendants::reap_orphans();
            if !descendants::descendants().is_empty() {
                return true;
            }
        }
        self.has_group()
    }

    /// Whether the group has a process.
    fn has_group(&self) -> bool {
        // SAFETY: as above. Signal 0 is not sent.
        let exists = unsafe { libc::kill(-self.group, 0) } == 0;
        // Those of another user exist too.
        exists || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether the group is in the foreground of the terminal, or was when the command ended.
    pub(super) fn had_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Handles every change of the command's state, and the end of orphans. Returns its exit status once it has ended.
    pub(super) fn changed(&mut self) -> Option<ExitStatus> {
        loop {
            let mut status = 0;
            // SAFETY: the pointer is valid.
            let changed =
                unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
            let status = ExitStatus::from_raw(status);
            if changed > 0 && changed != self.group {
                // An orphan, of which nothing is wanted.
            } else if changed == self.group {
                let Some(signal) = status.stopped_signal() else {
                    self.take_terminal();
                    return Some(status);
                };
                self.stopped(signal);
            } else if changed == 0
                || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
            {
                return None;
            }
        }
    }

    /// The terminal stopped the command. Another stop, such as by `kill -STOP`, is not for this process.
    fn stopped(&mut self, signal: c_int) {
        let reads = [SIGTTIN, SIGTTOU].contains(&signal);
        if !reads && signal != SIGTSTP {
            return;
        }
        // SAFETY: a system call without memory.
        let own = unsafe { libc::getpgrp() };
        let had = self.terminal.is_some();
        let terminal = self.terminal.take().or_else(Terminal::open);
        let is_foreground =
            || terminal.as_ref().is_some_and(|terminal| terminal.has_in_foreground(own));
        if !(reads && is_foreground()) {
            // Others of the group may not have stopped, and would go on while this process cannot notice a loss.
            self.signal(SIGSTOP);
            // The shell must see that its job stopped. It continues this process first.
            self.give_back(terminal.as_ref(), own);
            suspend(signal, terminal.is_some());
        }
        if is_foreground() {
            // After a stop by the user, only if it had the terminal before.
            if let Some(terminal) = terminal.filter(|_| reads || had) {
                terminal.give_to(self.group);
                self.terminal = Some(terminal);
            }
        } else if reads {
            // It would be stopped again at once. The next SIGCONT is passed on.
            return;
        }
        self.signal(SIGCONT);
    }

    /// Returns the terminal to this process.
    fn take_terminal(&self) {
        // SAFETY: a system call without memory.
        self.give_back(self.terminal.as_ref(), unsafe { libc::getpgrp() });
    }

    fn give_back(&self, terminal: Option<&Terminal>, own: pid_t) {
        if let Some(terminal) = terminal.filter(|terminal| terminal.has_in_foreground(self.group)) {
            terminal.give_to(own);
        }
    }
}

/// Lets the command have the standard streams of this process. Node.js marks its own to be closed.
fn pass_on_streams() {
    for stream in 0..=2 {
        // SAFETY: system calls without memory. A stream that is not open stays so.
        unsafe {
            let flags = libc::fcntl(stream, libc::F_GETFD);
            if flags & libc::FD_CLOEXEC != 0 && flags != -1 {
                libc::fcntl(stream, libc::F_SETFD, flags & !libc::FD_CLOEXEC);
            }
        }
    }
}

/// Lets the system end the command when this process dies. Nothing else would: the lock expires, and the command
/// would go on without it.
#[cfg(target_os = "linux")]
fn end_with_this_process(command: &mut Command, signal: c_int) {
    let parent = std::process::id().cast_signed();
    let prepare = move || {
        // SAFETY: system calls without memory.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            // This process may have died before.
            if libc::getppid() != parent {
                libc::_exit(0);
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(prepare) };
}
