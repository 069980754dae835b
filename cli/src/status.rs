//! The exit statuses of the command, and the status of an error.

use redlock::{Error, ErrorKind};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    code: u8,
    /// The signal by which the process ends itself, so that its parent sees what it would see of the command alone.
    signal: Option<i32>,
    /// Whether the process group gets the signal too.
    group: bool,
}

/// The lock was not acquired in time. `-E` sets another.
pub(crate) const CONFLICT: Status = Status::from_code(1);
/// The arguments or an option are wrong (`EX_USAGE`, as of flock).
pub(crate) const USAGE: Status = Status::from_code(64);
/// The command cannot be run (`EX_UNAVAILABLE`, as of flock).
#[cfg(unix)]
pub(crate) const CANNOT_RUN: Status = Status::from_code(69);
/// Something that should not happen (`EX_SOFTWARE`).
pub(crate) const INTERNAL: Status = Status::from_code(70);
/// No quorum of nodes replied (`EX_TEMPFAIL`).
const UNAVAILABLE: Status = Status::from_code(75);
/// A server lacks a feature, or the key is not a lock (`EX_CONFIG`).
const UNSUPPORTED: Status = Status::from_code(78);
/// The lock was lost before the command ended. No shell, `sysexits.h`, flock or timeout uses it.
pub(crate) const LOST: Status = Status::from_code(99);

impl Status {
    /// The command did what it was asked to do.
    pub const SUCCESS: Self = Self::from_code(0);

    pub(crate) const fn from_code(code: u8) -> Self {
        Self { code, signal: None, group: false }
    }

    /// The status of a command that a signal ended, as shells show it.
    #[cfg(unix)]
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self::from_code(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    /// The status of this process, which ends by the signal itself.
    #[cfg(unix)]
    pub(crate) fn by_signal(signal: i32) -> Self {
        Self { signal: Some(signal), ..Self::of_signal(signal) }
    }

    /// As [`Self::by_signal`], for a signal that the terminal sent to the command alone. Without the command, it would
    /// have sent it to this process group, such as that of a script.
    #[cfg(unix)]
    pub(crate) fn by_signal_of_terminal(signal: i32) -> Self {
        Self { group: true, ..Self::by_signal(signal) }
    }

    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout => CONFLICT,
            ErrorKind::Lost | ErrorKind::Released => LOST,
            ErrorKind::Unavailable => UNAVAILABLE,
            ErrorKind::Invalid => USAGE,
            ErrorKind::Unsupported => UNSUPPORTED,
            _ => INTERNAL,
        }
    }

    /// The number that a shell shows.
    pub fn code(self) -> u8 {
        self.code
    }

    /// Ends the process.
    pub fn exit(self) -> ! {
        #[cfg(unix)]
        if let Some(signal) = self.signal {
            // SAFETY: both are system calls without memory. The process ends here, unless the signal is blocked.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::kill(if self.group { 0 } else { libc::getpid() }, signal);
            }
        }
        std::process::exit(self.code.into())
    }
}
